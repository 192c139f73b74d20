// Images and videos in blocks. The page loads nothing from other hosts, because this would tell a message's author who
// reads it and when: images of this workspace are shown, others are named and can be opened.

import { element, link } from "../dom.js";
import { words } from "./words.js";

export function image(block, kit) {
  const source = String(block.image_url ?? block.slack_file?.url ?? "");
  const described = String(block.alt_text ?? "image");
  const shown = isHere(source)
    ? element("img", { src: source, alt: described, loading: "lazy" })
    : link(source, element("span", { class: "elsewhere" }, "🖼 ", described));
  if (!block.title) return shown;
  return element("figure", {}, element("figcaption", { class: "quiet" }, words(block.title, kit.names)), shown);
}

function isHere(source) {
  try {
    return new URL(source, location.href).origin === location.origin;
  } catch {
    return false;
  }
}

export function video(block, kit) {
  const address = String(block.title_url ?? block.video_url ?? "");
  return element(
    "div",
    { class: "card" },
    element("strong", {}, link(address, "▶ ", words(block.title, kit.names))),
    block.author_name && element("div", { class: "quiet" }, block.author_name),
    block.description && element("div", {}, words(block.description, kit.names)),
  );
}
