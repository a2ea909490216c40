/**
 * Many state transactions at one time against one that runs them one after the other, over a store that fails and dies. SVC_SEED=<n> repeats a seed,
 * SVC_SEEDS=<n> takes that many.
 */
import { constants } from 'node:os'
import type { StateStore, StateTransaction } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { utf8Order } from '../../common/state-draft.ts'
import type { KeyValueStore } from './key-value-store.ts'
import { LmdbState } from './state-store.ts'
import { CatalogStore } from './store.ts'
import { decodeValue } from './value.ts'

const FIRST_SEED = 20_260_301
const { SVC_SEED, SVC_SEEDS = '60' } = process.env
const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS) }, (_, i) => FIRST_SEED + i) : [Number(SVC_SEED)]
const ROOT = 'state/one/'
const MARK = 'mark/'
const PANIC = -30_795

type Random = () => number
type Changes = (readonly [key: string, value: Uint8Array | undefined])[]

/** What a machine keeps, and every commit that has reached it. */
class Disk {
  readonly entries = new Map<string, Uint8Array>()
  readonly commits: Changes[] = []

  apply(changes: Changes): void {
    this.commits.push(changes)
    for (const [key, value] of changes) {
      if (value === undefined) this.entries.delete(key)
      else this.entries.set(key, value)
    }
  }
}

/** A process' store over the disk. @property chance of a commit that fails, that kills, that leaves it unknown. */
class FailingStore implements KeyValueStore {
  readonly flushed = Promise.resolve()
  dead = false
  private readonly disk: Disk
  private readonly random: Random
  private readonly chance: { fail: number; die: number; panic: number }
  private gathering: Changes = []
  private panicked = false
  /** Resolves when the process dies. */
  readonly died: Promise<void>
  private die = (): void => {}

  constructor(disk: Disk, random: Random, chance: { fail: number; die: number; panic: number }) {
    this.disk = disk
    this.random = random
    this.chance = chance
    this.died = new Promise((resolve) => {
      this.die = resolve
    })
  }

  get(key: string): unknown {
    return this.disk.entries.get(key)
  }

  getBinaryFast(key: string): Uint8Array | undefined {
    return this.disk.entries.get(key)
  }

  *getKeys(range: { start?: string; end?: string; limit?: number }): Generator<string> {
    for (const { key } of this.getRange(range)) yield key
  }

  *getRange({
    start = '',
    end,
    limit = Number.POSITIVE_INFINITY,
  }: {
    start?: string
    end?: string
    limit?: number
  }): Generator<{ key: string; value: unknown }> {
    const keys = [...this.disk.entries.keys()].sort(utf8Order).filter((key) => utf8Order(key, start) >= 0 && (end === undefined || utf8Order(key, end) < 0))
    for (const key of keys.slice(0, limit)) yield { key, value: this.disk.entries.get(key) }
  }

  getStats(): object {
    return { pageSize: 4096, lastPageNumber: 1 }
  }

  async batch(body: () => void): Promise<unknown> {
    this.gathering = []
    body()
    const changes = this.gathering
    const failed = (code: number, text: string) => {
      const commitError = Promise.reject(Object.assign(new Error(text), { code }))
      commitError.catch(() => {})
      return Object.assign(new Error('Commit failed'), { commitError })
    }
    for (let turns = Math.floor(this.random() * 4); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
    if (this.panicked) throw failed(PANIC, 'MDB_PANIC')
    const chance = this.random()
    const { fail, die, panic } = this.chance
    if (chance < die) {
      if (this.random() < 0.5) this.disk.apply(changes)
      this.dead = true
      this.die()
      return new Promise(() => {})
    }
    if (chance < die + fail) throw failed(this.random() < 0.5 ? constants.errno.ENOSPC : constants.errno.EIO, 'it failed')
    if (chance < die + fail + panic) {
      this.panicked = true
      if (this.random() < 0.5) this.disk.apply(changes)
      throw failed(constants.errno.EIO, 'it failed, and nobody knows how')
    }
    this.disk.apply(changes)
    return true
  }

  async put(key: string, value: Uint8Array): Promise<boolean> {
    this.gathering.push([key, value])
    return true
  }

  async remove(key: string): Promise<boolean> {
    this.gathering.push([key, undefined])
    return true
  }

  async backup(): Promise<void> {}

  async close(): Promise<void> {}
}

/** No room is taken in a file that there is not. */
const NO_FILE = {
  ...realFileSystem,
  mkdirSync: () => {},
  freeSpace: () => 1e9,
  promises: {
    ...realFileSystem.promises,
    open: async () => ({ stat: async () => ({ size: Number.MAX_SAFE_INTEGER }), close: async () => {} }),
  },
} as unknown as FileSystem

type Read = { get: string; was: unknown } | { prefix: string; limit: number; was: unknown }

interface Transaction {
  id: string
  /** Of the body's last run. */
  reads: Read[]
  writes: [key: string, value: number | undefined][]
  outcome: 'under way' | 'stored' | 'refused' | 'unknown' | 'only read'
  /** Commits on the disk when it began, and when it was answered. */
  from: number
  to: number
}

const keyOf = (random: Random): string => `${random() < 0.5 ? 'a' : 'b'}/${Math.floor(random() * 6)}`

async function act(state: StateStore, one: Transaction, random: Random, next: () => number): Promise<void> {
  const readOnly = random() < 0.15
  const throws = random() < 0.05
  await state.transaction(async (tx: StateTransaction) => {
    one.reads = []
    one.writes = []
    const turn = async () => {
      if (random() < 0.2) await new Promise((resolve) => setImmediate(resolve))
    }
    for (let n = Math.floor(random() * 3); n > 0; n--) {
      const get = keyOf(random)
      one.reads.push({ get, was: await tx.get(get) })
      await turn()
    }
    if (random() < 0.4) {
      const [prefix, limit] = [random() < 0.5 ? 'a/' : 'b/', 1 + Math.floor(random() * 6)]
      one.reads.push({ prefix, limit, was: await tx.list({ prefix, limit }) })
      await turn()
    }
    if (throws) throw new Error('it was to fail')
    if (readOnly) return
    for (let n = Math.floor(random() * 3); n >= 0; n--) {
      const key = keyOf(random)
      const value = random() < 0.25 ? undefined : next()
      one.writes.push([key, value])
      if (value === undefined) tx.delete(key)
      else tx.put(key, value)
      await turn()
    }
    tx.put(`${MARK}${one.id}`, true)
  })
  if (readOnly) one.outcome = 'only read'
}

/** What the transactions read and wrote is as if each had been alone, in the order in which they are on the disk. @returns how many there were in a commit at most. */
function judge(disk: Disk, transactions: readonly Transaction[]): number {
  const byId = new Map(transactions.map((one) => [one.id, one]))
  const model = new Map<string, number>()
  const holds = ({ was, ...read }: Read): boolean => {
    const now =
      'get' in read
        ? model.get(read.get)
        : [...model]
            .filter(([key]) => key.startsWith(read.prefix))
            .sort(([a], [b]) => utf8Order(a, b))
            .slice(0, read.limit)
            .map(([key, value]) => ({ key, value }))
    return JSON.stringify(now) === JSON.stringify(was)
  }
  const stored = new Set<string>()
  const onlyRead = new Set(transactions.filter(({ outcome }) => outcome === 'only read'))
  let most = 0
  const look = (commit: number) => {
    for (const one of onlyRead) if (one.from <= commit && commit <= one.to && one.reads.every(holds)) onlyRead.delete(one)
  }
  look(0)
  for (const [index, changes] of disk.commits.entries()) {
    let members = 0
    for (const [key] of changes) {
      if (!key.startsWith(ROOT + MARK)) continue
      const one = byId.get(key.slice((ROOT + MARK).length)) as Transaction
      if (!one.reads.every(holds))
        throw new Error(`transaction ${one.id} has read ${JSON.stringify(one.reads)} and the model has ${JSON.stringify([...model])}`)
      for (const [name, value] of one.writes) {
        if (value === undefined) model.delete(name)
        else model.set(name, value)
      }
      stored.add(one.id)
      members++
    }
    most = Math.max(most, members)
    look(index + 1)
  }
  if (onlyRead.size > 0) throw new Error(`what ${onlyRead.size} have read was never so: ${JSON.stringify([...onlyRead][0])}`)
  for (const { id, outcome } of transactions) {
    if (outcome === 'stored' && !stored.has(id)) throw new Error(`transaction ${id} was acknowledged, and is not there`)
    if (outcome === 'refused' && stored.has(id)) throw new Error(`transaction ${id} was refused, and is there`)
  }
  const found = new Map([...disk.entries].filter(([key]) => /^state\/one\/[ab]\//.test(key)).map(([key, value]) => [key, decodeValue(key, value).toString()]))
  for (const [key, value] of model)
    if (String(found.get(ROOT + key)) !== String(Buffer.from(String(value)))) throw new Error(`"${key}" is ${found.get(ROOT + key)}, not ${value}`)
  if (found.size !== model.size) throw new Error(`there are ${found.size} keys, and ${model.size} in the model`)
  return most
}

async function live(seed: number): Promise<{ most: number; transactions: Transaction[] }> {
  const random = seeded(seed)
  const disk = new Disk()
  const transactions: Transaction[] = []
  let value = 0
  for (let lives = 0; lives < 4; lives++) {
    const chance = lives === 3 ? { fail: 0, die: 0, panic: 0 } : { fail: random() * 0.1, die: random() * 0.06, panic: random() * 0.03 }
    const opened = new FailingStore(disk, random, { fail: 0, die: 0, panic: 0 })
    await CatalogStore.open('.', true, { fs: NO_FILE, openStore: () => opened })
    const db = new FailingStore(disk, random, chance)
    const store = await CatalogStore.open('.', false, { fs: NO_FILE, openStore: () => db })
    const state = new LmdbState(store, 'one')
    const worker = async (): Promise<void> => {
      for (let n = 0; n < 6 && !db.dead; n++) {
        const one: Transaction = {
          id: `t${transactions.length}`,
          reads: [],
          writes: [],
          outcome: 'under way',
          from: disk.commits.length,
          to: Number.POSITIVE_INFINITY,
        }
        transactions.push(one)
        const end = (outcome: Transaction['outcome']) => {
          if (db.dead) return
          if (one.outcome === 'under way') one.outcome = outcome
          one.to = disk.commits.length
        }
        await act(state, one, random, () => ++value).then(
          () => end('stored'),
          (error: { code?: string; message: string }) => {
            if (error.code === undefined && error.message !== 'it was to fail') throw error
            end(error.code === 'OVERLOADED' ? 'unknown' : 'refused')
          },
        )
      }
    }
    await Promise.race([db.died, Promise.all(Array.from({ length: 12 }, worker))])
    // What a dead process still has in memory reaches nobody.
    for (const one of transactions) if (one.outcome === 'under way') one.outcome = 'unknown'
  }
  return { most: judge(disk, transactions), transactions }
}

t.test('transactions at one time are as if one after the other, whatever fails', async (t) => {
  const total = { most: 0, transactions: 0, stored: 0, refused: 0, unknown: 0 }
  for (const seed of seeds) {
    try {
      const { most, transactions } = await live(seed)
      total.most = Math.max(total.most, most)
      total.transactions += transactions.length
      for (const { outcome } of transactions) if (outcome === 'stored' || outcome === 'refused' || outcome === 'unknown') total[outcome]++
    } catch (error) {
      t.fail(`SVC_SEED=${seed} ${(error as Error).stack}`)
    }
  }
  t.comment(`SVC_SEED=${seeds[0]} and ${seeds.length - 1} more: ${JSON.stringify(total)}`)
  if (seeds.length < 50) return
  t.ok(total.most > 5, `${total.most} became durable with one sync`)
  t.ok(total.stored > seeds.length && total.refused > seeds.length && total.unknown > 0, JSON.stringify(total))
})

t.test('many that change one thing need few commits, and none is lost', async (t) => {
  const disk = new Disk()
  const store = await CatalogStore.open('.', true, { fs: NO_FILE, openStore: () => new FailingStore(disk, seeded(1), { fail: 0, die: 0, panic: 0 }) })
  const state = new LmdbState(store, 'one')
  const before = disk.commits.length
  await Promise.all(Array.from({ length: 64 }, () => state.transaction(async (tx) => tx.put('n', ((await tx.get<number>('n')) ?? 0) + 1))))
  t.equal(await state.get('n'), 64)
  t.ok(disk.commits.length - before <= 6, `${disk.commits.length - before} commits`)
})

t.test('what is too much for one commit waits for the next, in its order, and none is left out', async (t) => {
  const disk = new Disk()
  const store = await CatalogStore.open('.', true, { fs: NO_FILE, openStore: () => new FailingStore(disk, seeded(1), { fail: 0, die: 0, panic: 0 }) })
  const state = new LmdbState(store, 'one')
  const before = disk.commits.length
  const large = 'x'.repeat(3 << 20)
  const keys = ['a', 'b', 'c', 'd', 'e']
  const done: string[] = []
  await Promise.all(keys.map((key) => state.transaction((tx) => tx.put(key, key + large)).then(() => done.push(key))))
  t.same(done, keys)
  const commits = disk.commits.slice(before).map((changes) => changes.map(([key]) => key).filter((key) => key.startsWith(ROOT)))
  t.same(
    commits.flat(),
    keys.map((key) => ROOT + key),
  )
  t.ok(
    commits.every(({ length }) => length <= 2),
    JSON.stringify(commits),
  )
})

t.test('what one transaction asks wrongly is its own failure', async (t) => {
  const disk = new Disk()
  const store = await CatalogStore.open('.', true, { fs: NO_FILE, openStore: () => new FailingStore(disk, seeded(1), { fail: 0, die: 0, panic: 0 }) })
  const state = new LmdbState(store, 'one')
  const [, long] = await Promise.allSettled([
    state.transaction((tx) => tx.put('a', 1)),
    state.transaction((tx) => tx.put('k'.repeat(5000), 1)),
    state.transaction((tx) => tx.put('b', 2)),
  ])
  t.match(long, { status: 'rejected', reason: { code: 'INVALID_REQUEST' } })
  t.same(await state.list(), [
    { key: 'a', value: 1 },
    { key: 'b', value: 2 },
  ])
})

t.test('of two at one time that look whether the other was there, one is, from the start of its range on', async (t) => {
  for (let turns = 0; turns < 12; turns++) {
    const store = await CatalogStore.open('.', true, { fs: NO_FILE, openStore: () => new FailingStore(new Disk(), seeded(1), { fail: 0, die: 0, panic: 0 }) })
    const state = new LmdbState(store, 'one')
    const unless = (other: string, own: string) => async (tx: StateTransaction) => {
      if ((await tx.list({ start: other, end: `${other}0` })).length === 0) tx.put(own, true)
    }
    const begun = [state.transaction((tx) => tx.put('x', turns)), state.transaction(unless('b', 'a'))]
    for (let i = 0; i < turns; i++) await Promise.resolve()
    await Promise.all([...begun, state.transaction(unless('a', 'b'))])
    t.equal((await state.list({ end: 'c' })).length, 1, `${turns}`)
  }
})
