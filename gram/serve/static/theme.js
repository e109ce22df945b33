// Light, dark, or as the system has it.

const NAMES = ["auto", "light", "dark"];

/** Apply the visitor's theme and let the button change it; `onChange` gets the theme that is then seen. */
export function startTheme(button, onChange) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let name = localStorage.getItem("gram-theme") ?? "auto";
  const seen = () => (name === "auto" ? (dark.matches ? "dark" : "light") : name);
  const apply = () => {
    document.documentElement.dataset.theme = seen();
    button.textContent = `Theme: ${name}`;
  };
  apply();
  button.addEventListener("click", () => {
    name = NAMES[(NAMES.indexOf(name) + 1) % NAMES.length];
    localStorage.setItem("gram-theme", name);
    apply();
    onChange(seen());
  });
  dark.addEventListener("change", () => {
    apply();
    onChange(seen());
  });
  return seen();
}
