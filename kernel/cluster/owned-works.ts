/** The work of one plugin that one node at a time does: wanted from when the plugin is ready until it drains. */
import type { StateStore } from '../storage/state.ts'
import type { Cluster } from './cluster.ts'
import type { Owned, OwnOptions } from './types.ts'
import type { OwnedWork } from './want.ts'

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/

export class OwnedWorks {
  private readonly plugin: string
  private readonly cluster: Cluster
  private readonly state: (() => StateStore) | undefined
  private readonly all = new Map<string, { begin(): void; owned: Owned }>()
  private started = false

  /** @param state the plugin's own; undefined where it keeps none. */
  constructor(plugin: string, cluster: Cluster, state: (() => StateStore) | undefined) {
    this.plugin = plugin
    this.cluster = cluster
    this.state = state
  }

  add(name: string, work: OwnedWork, { everywhere }: OwnOptions = {}): Owned {
    const refused = (why: string) => new Error(`cannot own "${name}" of plugin "${this.plugin}": ${why}`)
    if (!NAME.test(name)) throw refused('a name is up to 128 letters, digits, "_", "-" and ".", starting with a letter or a digit')
    if (this.all.has(name)) throw refused('there is work of that name already')
    let unwant: (() => Promise<void>) | undefined
    let has = false
    const { state } = this
    const run: OwnedWork = async (claim) => {
      has = true
      try {
        await work(claim)
      } finally {
        has = false
      }
    }
    const begin = () => {
      unwant = this.cluster.want(`${this.plugin}/${name}`, run, { ...(everywhere && { everywhere }), ...(state && { fence: state }) })
    }
    const owned: Owned = {
      get owned() {
        return has
      },
      stop: async () => {
        if (!this.all.delete(name)) return
        await unwant?.()
      },
    }
    this.all.set(name, { begin, owned })
    if (this.started) begin()
    return owned
  }

  start(): void {
    this.started = true
    for (const { begin } of this.all.values()) begin()
  }

  /** Safe twice. */
  async stop(): Promise<void> {
    await Promise.all([...this.all.values()].map(({ owned }) => owned.stop()))
  }
}
