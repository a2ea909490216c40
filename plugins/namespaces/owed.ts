/**
 * What plugins have to forget of namespaces that went while they were not selected. A plugin that keeps something over restarts is noted when it is first
 * seen; a namespace that goes without it leaves a note for it, which its next start settles before it does anything else. Otherwise the next namespace of
 * that name would begin with what was another's: triggers that send its points elsewhere, say. Therefore the keeper does not start without this plugin before.
 *
 * The points of a node that has points of its own beside a state store that nodes share are kept by a keeper of that node's: it owes their removal from the deletion on
 * another node until it has done that, and knows nothing of what has the name next before.
 */
import { type Following, followState, type StateStore, UNFINISHED } from 'svcdb'
import type { Forget } from './directory.ts'

const KEEPER = 'keeper/'
const OWED = 'owed/'

export class Owed {
  private readonly state: () => StateStore
  private readonly here = new Map<string, Forget>()
  /** The last settling; one at a time, so that none goes on when the name is another's. Never rejects. */
  private settling: Promise<unknown> = Promise.resolve()
  private following: Following | undefined

  /** @param state may be asked for from the start phase on. */
  constructor(state: () => StateStore) {
    this.state = state
  }

  /** Call when keepers may have begun; those that begin later settle by themselves. @param failed it is tried again. */
  async open(failed: (error: Error) => void): Promise<void> {
    this.following = await followState(this.state(), { prefixes: [OWED], apply: () => this.settleAll(), failed })
  }

  /** Resolves when nothing is owed here. @throws what a keeper, or the state store, throws. */
  async settleAll(): Promise<void> {
    for (const [keeper, forget] of this.here) await this.settle(keeper, forget)
  }

  async close(): Promise<void> {
    await this.following?.stop()
  }

  /** Resolves when it has forgotten what went without it. @throws what it, or the state store, throws. */
  async begin(keeper: string, forget: Forget): Promise<void> {
    const state = this.state()
    if ((await state.get(KEEPER + keeper)) === undefined) await state.transaction((tx) => tx.put(KEEPER + keeper, {}))
    await this.settle(keeper, forget)
    this.here.set(keeper, forget)
  }

  /** A namespace goes: durable before its name is free. */
  async leave(name: string): Promise<void> {
    const keepers = (await this.state().list({ prefix: KEEPER })).map(({ key }) => key.slice(KEEPER.length))
    const away = keepers.filter((keeper) => !this.here.has(keeper))
    if (away.length === 0) return
    await this.state().transaction((tx) => {
      for (const keeper of away) {
        tx.put(owedTo(keeper) + name, {})
        tx.put(unfinished(keeper), { what: `plugin "${keeper}" has to forget namespaces that are gone`, beside: keeper })
      }
    })
  }

  private settle(keeper: string, forget: Forget): Promise<void> {
    const settled = this.settling.then(() => this.settleNow(keeper, forget))
    this.settling = settled.catch(() => {})
    return settled
  }

  private async settleNow(keeper: string, forget: Forget): Promise<void> {
    const prefix = owedTo(keeper)
    for (const { key } of await this.state().list({ prefix })) {
      await forget(key.slice(prefix.length))
      await this.state().transaction((tx) => tx.delete(key))
    }
    if ((await this.state().get(unfinished(keeper))) === undefined) return
    await this.state().transaction(async (tx) => {
      if ((await tx.list({ prefix, limit: 1 })).length === 0) tx.delete(unfinished(keeper))
    })
  }
}

const unfinished = (keeper: string): string => `${UNFINISHED}${OWED}${keeper}`
const owedTo = (keeper: string): string => `${OWED}${keeper}/`
