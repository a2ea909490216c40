/**
 * Many state transactions at one time, of several processes, over a store that may fail: they must be as if one after the other.
 *
 * Each key holds the list of the transactions that have written it, so that what a transaction has read says which write came last before it. From the lists
 * in the end follows who came before whom; a cycle means that there is no order in which the transactions can have come.
 */
import { setImmediate } from 'node:timers/promises'
import type { StateStore, StateTransaction } from 'svcdb'
import { seeded } from 'svcdb/lib/random'

const KEYS = ['a/0', 'a/1', 'a/2', 'a/3', 'b/0', 'b/1', 'b/2', 'b/3']

export interface HistoryOptions {
  seed: number
  /** At one time, over each store. */
  workers: number
  /** Of each worker. */
  transactions: number
  /** Nothing may be refused for other reasons than a full store or one that is away. Default: nothing is refused. */
  mayFail?: boolean
}

export interface History {
  stored: number
  refused: number
  unknown: number
}

interface Transaction {
  id: string
  /** By key: how many writes it saw there. */
  saw: Map<string, number>
  wrote: Set<string>
  outcome: 'stored' | 'refused' | 'unknown'
}

type Lists = Map<string, string[]>

/** @param stores of the same owner, as each process has it. @throws Error saying what cannot be. */
export async function stateHistory(stores: readonly StateStore[], { seed, workers, transactions, mayFail = false }: HistoryOptions): Promise<History> {
  const random = seeded(seed)
  const all: Transaction[] = []
  const work = async (state: StateStore): Promise<void> => {
    for (let n = 0; n < transactions; n++) {
      const one: Transaction = { id: `t${all.length}`, saw: new Map(), wrote: new Set(), outcome: 'unknown' }
      all.push(one)
      const plan = Array.from({ length: 1 + Math.floor(random() * 4) }, () => ({
        act: random(),
        key: KEYS[Math.floor(random() * KEYS.length)],
        limit: 1 + Math.floor(random() * 4),
      }))
      try {
        await state.transaction((tx) => act(tx, one, plan))
        one.outcome = 'stored'
      } catch (error) {
        const { code, message } = error as { code?: string; message: string }
        if (!mayFail || (code !== 'OVERLOADED' && code !== 'STORAGE_FULL')) throw error
        one.outcome = /not known/.test(message) ? 'unknown' : 'refused'
      }
    }
  }
  await Promise.all(stores.flatMap((state) => Array.from({ length: workers }, () => work(state))))
  const lists: Lists = new Map()
  for (const { key, value } of await stores[0].list<string[]>()) if (KEYS.includes(key)) lists.set(key, value)
  judge(all, lists)
  const count = (outcome: Transaction['outcome']) => all.filter((one) => one.outcome === outcome).length
  return { stored: count('stored'), refused: count('refused'), unknown: count('unknown') }
}

interface Step {
  act: number
  key: string
  limit: number
}

async function act(tx: StateTransaction, one: Transaction, plan: readonly Step[]): Promise<void> {
  one.saw = new Map()
  one.wrote = new Set()
  const see = (key: string, list: readonly string[] | undefined): string[] => {
    const others = (list ?? []).filter((id) => id !== one.id)
    const before = one.saw.get(key)
    // What it makes of two times is compared at the commit; here it must not be taken as read.
    if (before !== undefined && before !== others.length) one.saw.set(key, Number.NaN)
    else one.saw.set(key, others.length)
    return [...(list ?? [])]
  }
  for (const { act, key, limit } of plan) {
    if (act < 0.3) see(key, await tx.get(key))
    else if (act < 0.5) {
      const found = await tx.list<string[]>({ prefix: key.slice(0, 2), limit })
      const last = found.length < limit ? '~' : (found.at(-1)?.key ?? '')
      const lists = new Map(found.map((entry) => [entry.key, entry.value]))
      for (const name of KEYS) if (name.startsWith(key.slice(0, 2)) && name <= last) see(name, lists.get(name))
    } else {
      const list = see(key, await tx.get(key))
      if (!one.wrote.has(key)) tx.put(key, [...list, one.id])
      one.wrote.add(key)
    }
    if (act > 0.9) await setImmediate()
  }
}

function judge(all: readonly Transaction[], lists: Lists): void {
  const byId = new Map(all.map((one) => [one.id, one]))
  for (const one of all) {
    const at = [...one.wrote].map((key) => lists.get(key)?.filter((id) => id === one.id).length ?? 0)
    if (at.some((times) => times > 1)) throw new Error(`transaction ${one.id} was stored twice`)
    if (one.outcome === 'stored' && at.includes(0)) throw new Error(`transaction ${one.id} was acknowledged, and is not there`)
    if (one.outcome === 'refused' && at.includes(1)) throw new Error(`transaction ${one.id} was refused, and is there`)
    if (one.outcome === 'unknown' && new Set(at).size > 1) throw new Error(`transaction ${one.id} is half there`)
    if (one.outcome === 'unknown') one.outcome = at.includes(1) ? 'stored' : 'refused'
  }
  const after = new Map<string, Set<string>>()
  const edge = (from: string | undefined, to: string | undefined) => {
    if (from === undefined || to === undefined || from === to) return
    const known = after.get(from) ?? new Set()
    after.set(from, known.add(to))
  }
  for (const list of lists.values()) for (const [index, id] of list.entries()) edge(id, list[index + 1])
  for (const one of all) {
    if (one.outcome !== 'stored') continue
    for (const [key, seen] of one.saw) {
      if (Number.isNaN(seen)) throw new Error(`transaction ${one.id} has seen "${key}" at two times`)
      const list = lists.get(key) ?? []
      // The write before what it saw came before it, the one behind came after it.
      edge(list[seen - 1], one.id)
      edge(one.id, list[seen] === one.id ? list[seen + 1] : list[seen])
    }
  }
  const state = new Map<string, 'open' | 'done'>()
  for (const id of byId.keys()) visit(id, after, state, [])
}

/** In depth, without recursion of the language: histories are long. @throws Error with the cycle. */
function visit(first: string, after: ReadonlyMap<string, ReadonlySet<string>>, state: Map<string, 'open' | 'done'>, path: string[]): void {
  if (state.has(first)) return
  const stack: { id: string; next: Iterator<string> }[] = []
  const enter = (id: string) => {
    state.set(id, 'open')
    path.push(id)
    stack.push({ id, next: (after.get(id) ?? new Set<string>()).values() })
  }
  enter(first)
  while (stack.length > 0) {
    const { id, next } = stack[stack.length - 1]
    const { done, value } = next.next()
    if (done === true) {
      state.set(id, 'done')
      path.pop()
      stack.pop()
    } else if (state.get(value) === 'open') throw new Error(`no order: ${[...path.slice(path.indexOf(value)), value].join(' before ')}`)
    else if (!state.has(value)) enter(value)
  }
}
