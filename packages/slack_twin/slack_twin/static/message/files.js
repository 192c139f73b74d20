// Files of a message: images are displayed, other files can be downloaded.

import { element } from "../dom.js";

const SHOWN = /^image\/(png|jpeg|gif|webp|svg\+xml|avif|bmp)$/;
const SIGNS = [
  [/^image\//, "🖼"],
  [/^video\//, "🎞"],
  [/^audio\//, "🎵"],
  [/pdf/, "📕"],
  [/zip|tar|compressed/, "🗜"],
  [/json|javascript|x-python|x-sh|xml/, "📜"],
];
const UNITS = ["B", "kB", "MB", "GB"];

export function drawFiles(files) {
  if (!files.length) return null;
  return element(
    "div",
    { class: "files" },
    files.map((file) => (SHOWN.test(file.mimetype ?? "") && file.size ? picture(file) : card(file))),
  );
}

const address = (file) => `/files/${file.id}/${encodeURIComponent(file.name)}`;

function picture(file) {
  return element(
    "figure",
    { class: "picture" },
    element(
      "a",
      { href: address(file), download: file.name, "aria-label": `Download ${file.name}` },
      element("img", { src: address(file), alt: file.alt_txt || file.name, loading: "lazy" }),
    ),
    element("figcaption", { class: "quiet" }, file.title || file.name, " · ", size(file.size)),
  );
}

function card(file) {
  return element(
    "a",
    { class: "file", href: address(file), download: file.name },
    element(
      "span",
      { class: "file-sign", "aria-hidden": "true" },
      SIGNS.find(([kind]) => kind.test(file.mimetype ?? ""))?.[1] ?? "📄",
    ),
    element(
      "span",
      { class: "file-name" },
      element("strong", {}, file.title || file.name),
      element("small", {}, file.transcript ? `“${file.transcript}”` : size(file.size)),
    ),
    element("span", { class: "quiet", "aria-hidden": "true" }, "⤓"),
  );
}

export function size(bytes) {
  const power = bytes ? Math.min(UNITS.length - 1, Math.floor(Math.log(bytes) / Math.log(1000))) : 0;
  const value = bytes / 1000 ** power;
  return `${power && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[power]}`;
}
