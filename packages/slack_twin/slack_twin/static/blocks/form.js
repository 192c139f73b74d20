// A person's input in the controls of one message or modal, in the format of Slack's `state.values`.

export class Form {
  constructor() {
    this.values = {};
  }

  // The person's value of a control, or null before any input.
  get(block, control) {
    return this.values[block.block_id]?.[control.action_id] ?? null;
  }

  set(block, control, value) {
    (this.values[block.block_id] ??= {})[control.action_id] = { type: control.type, ...value };
  }

  // Controls with an initial value count as filled in.
  begin(block, control, value) {
    if (!this.get(block, control) && value) this.set(block, control, value);
    return this.get(block, control);
  }

  // The input in the current inputs of `blocks`. The app already knows all other values.
  entered(blocks) {
    const left = blocks.filter((block) => block.type === "input" && this.values[block.block_id]);
    const plain = (values) =>
      Object.fromEntries(Object.entries(values).map(([action, value]) => [action, plainOf(value)]));
    return Object.fromEntries(left.map((block) => [block.block_id, plain(this.values[block.block_id])]));
  }
}

// The plain value: a text, an option, an id, or a list of these.
export const plainOf = ({ type, typed, ...value }) => Object.values(value)[0] ?? null;

// Forms live as long as the page, so that a redrawn message keeps its input.
const forms = new Map();

export function formOf(key) {
  if (!forms.has(key)) forms.set(key, new Form());
  return forms.get(key);
}

export const forget = (key) => forms.delete(key);
