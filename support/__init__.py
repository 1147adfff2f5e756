"""What tests, scripts, benchmarks and chaos share. It imports none of them."""
