import "./desk_tests.js";
import "./restart_tests.js";
import "./connection_tests.js";
import "./browser_tests.js";
import "./package_tests.js";
