// People, apps and channels visible to this page's person: names for everything that messages mention.

export class Roster {
  constructor() {
    this.users = new Map();
    this.conversations = new Map();
    this.groups = new Map();
    this.apps = [];
    this.self = null;
  }

  take(state) {
    this.users = new Map(state.users.map((user) => [user.id, user]));
    this.conversations = new Map(state.channels.map((channel) => [channel.id, channel]));
    this.groups = new Map((state.groups ?? []).map((group) => [group.id, group]));
    this.apps = state.apps ?? [];
    this.self = this.users.get(state.me);
  }

  get me() {
    return this.self?.id;
  }
  person(id) {
    return this.users.get(id);
  }
  people() {
    return [...this.users.values()];
  }
  user(id) {
    return this.users.get(id)?.name ?? id;
  }
  group(id) {
    return this.groups.get(id)?.handle ?? id;
  }
  conversation(id) {
    return this.conversations.get(id);
  }
  channels() {
    return [...this.conversations.values()];
  }
  channel(id) {
    return this.conversations.get(id)?.name || id;
  }
  members(id) {
    return (this.conversation(id)?.members ?? []).map((member) => this.users.get(member)).filter(Boolean);
  }

  // The name of a conversation: direct ones are named after the other members.
  title(channel) {
    const others = channel.members
      .filter((member) => member !== this.me)
      .map((member) => this.person(member)?.display_name || this.user(member));
    return channel.name || others.join(", ") || `${this.self?.display_name} (you)`;
  }

  // The app in a conversation, if there is one.
  appIn(id) {
    return this.members(id).find((one) => one.is_bot) ?? null;
  }
}
