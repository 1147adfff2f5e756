// Forms: what they send, and small conveniences of single controls.

// What a form sends, without its files.
export function bodyOf(form, submitter) {
  const body = new URLSearchParams([...new FormData(form)].filter(([, value]) => typeof value === "string"));
  if (submitter?.name) body.append(submitter.name, submitter.value);
  return body;
}

export const sizeOf = (form) => new Blob([bodyOf(form, null).toString()]).size;

// Writing another answer also selects it.
function tickOther(other) {
  other.addEventListener("input", () => {
    const tick = other.closest(".tick-row").querySelector("input[value=other]");
    tick.checked = other.value.trim() !== "";
  });
}

// A time is in the person's time zone, unless they choose another offset.
function nearestZone(field) {
  const zone = field.parentElement.querySelector("select");
  let touched = field.value !== "" || zone.value !== "+00:00";
  zone.addEventListener("change", () => { touched = true; });
  const set = () => {
    if (touched) return;
    const minutes = -(field.value ? new Date(field.value) : new Date()).getTimezoneOffset();
    const two = (number) => String(Math.abs(number)).padStart(2, "0");
    const text = `${minutes < 0 ? "-" : "+"}${two(Math.trunc(minutes / 60))}:${two(minutes % 60)}`;
    if ([...zone.options].some((each) => each.value === text)) zone.value = text;
  };
  field.addEventListener("change", set);
  set();
}

export function startControls(part = document) {
  part.querySelectorAll("[data-other]").forEach(tickOther);
  part.querySelectorAll("[data-instant]").forEach(nearestZone);
}
