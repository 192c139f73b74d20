// The cells of a pasted table: from its HTML, or from lines with tabs.

export function tableIn(clipboard) {
  const html = new DOMParser().parseFromString(clipboard.getData("text/html"), "text/html");
  const marked = [...html.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
  const lines = clipboard.getData("text/plain").replace(/\r?\n$/, "").split(/\r?\n/);
  const tabbed = lines.every((line) => line.includes("\t")) ? lines.map((line) => line.split("\t")) : [];
  return [marked, tabbed].find((rows) => rows.length && rows[0].length > 1);
}
