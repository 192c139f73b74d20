// Names of emoji as Slack writes them. What is not here is shown as :name:.

const KNOWN = {
  "+1": "👍", "-1": "👎", thumbsup: "👍", thumbsdown: "👎", eyes: "👀", white_check_mark: "✅", heavy_check_mark: "✔️",
  ballot_box_with_check: "☑️", x: "❌", warning: "⚠️", no_entry: "⛔", octagonal_sign: "🛑", hourglass: "⌛",
  hourglass_flowing_sand: "⏳", clock1: "🕐", tada: "🎉", heart: "❤️", rocket: "🚀", fire: "🔥", bulb: "💡",
  thinking_face: "🤔", raised_hands: "🙌", pray: "🙏", wave: "👋", clap: "👏", muscle: "💪", ok_hand: "👌",
  point_up: "☝️", point_right: "👉", smile: "😄", slightly_smiling_face: "🙂", joy: "😂", wink: "😉",
  sob: "😭", sweat_smile: "😅", face_with_monocle: "🧐", robot_face: "🤖", bee: "🐝", honeybee: "🐝", ant: "🐜",
  mag: "🔍", memo: "📝", pencil2: "✏️", wrench: "🔧", hammer: "🔨", hammer_and_wrench: "🛠️", gear: "⚙️",
  package: "📦", lock: "🔒", key: "🔑", link: "🔗", books: "📚", bell: "🔔", no_bell: "🔕", star: "⭐",
  sparkles: "✨", zap: "⚡", boom: "💥", "100": "💯", question: "❓", exclamation: "❗", speech_balloon: "💬",
  hand: "✋", raised_hand: "✋", arrows_counterclockwise: "🔄", repeat: "🔁", leftwards_arrow_with_hook: "↩️",
  arrow_right: "➡️", busts_in_silhouette: "👥", handshake: "🤝", coffee: "☕", zzz: "💤", skull: "💀", bug: "🐛",
};

export const QUICK = ["+1", "eyes", "white_check_mark", "tada", "heart", "thinking_face"];

export const emoji = (name) => KNOWN[name.split("::")[0]] ?? null;
export const emojiOrName = (name) => emoji(name) ?? `:${name}:`;
