/**
 * Which topics a session at a broker may be subscribed to, in the state store. A broker keeps subscriptions with the session: those to topics that are no
 * longer configured are ended only by who knows of them.
 */
import type { StateStore } from 'svcdb'

interface Kept {
  session: string
  topics: string[]
}

export class SessionTopics {
  private readonly state: StateStore
  private readonly key: string
  private readonly session: string

  /** @param session address of the broker and client id. */
  constructor(state: StateStore, connector: string, session: string) {
    this.state = state
    this.key = `topics/${connector}`
    this.session = session
  }

  /** Call it before they are subscribed to. @returns those that the session may have beside them. */
  async begin(topics: readonly string[]): Promise<string[]> {
    const kept = await this.state.get<Kept>(this.key)
    const known = kept?.session === this.session ? kept.topics : []
    const former = known.filter((topic) => !topics.includes(topic))
    if (kept?.session !== this.session || topics.some((topic) => !known.includes(topic))) await this.keep([...topics, ...former])
    return former
  }

  /** The session has no others. */
  async keep(topics: readonly string[]): Promise<void> {
    await this.state.transaction((tx) => tx.put(this.key, { session: this.session, topics: [...topics] } satisfies Kept))
  }
}
