// Light or dark theme: follows the system until the reader chooses.

const KEY = "twin-theme";
export const THEMES = [
  ["system", "Same as system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export const theme = () => localStorage.getItem(KEY) ?? "system";

export function setTheme(name) {
  localStorage.setItem(KEY, name);
  applyTheme();
}

export function applyTheme() {
  if (theme() === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
}
