/**
 * What the state store knows of the audit log, which is a file: the newest entry that is certainly on the disk, and after which entries its files begin.
 * So entries that are missing at the end, and a file that another was put in place of, are noticed by a start and by `svc audit verify`.
 *
 * The file goes first: an entry is noted only when it is synced, so a crash between the two leaves a head that is older than the file and never one that
 * is newer. It is noted behind the call that was recorded, and not more often than every INTERVAL_MS: no call waits for it.
 */
import { hostname } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import type { StateRange, StateReader, StateStore, StateTransaction } from 'svcdb'

const INTERVAL_MS = 250
const HEAD = 'head'
const FILE = 'file/'
/** Beginnings that are remembered. */
const MAX_FILES = 1000

/** An entry by its number and its hash. */
export interface Head {
  id: bigint
  hash: string
}

interface StoredHead {
  /** Decimal: a double does not hold it. */
  id: string
  hash: string
}

interface HeadOptions {
  state: StateStore
  /** Notified of the first of several failures; the next note tries again. */
  failed(error: unknown): void
  intervalMs?: number
}

/** What the state store has of one log: nodes that share the store have a log each, told apart by machine and path. */
export function stateOfLog(state: StateStore, path: string): StateStore
export function stateOfLog(state: StateReader, path: string): StateReader
export function stateOfLog(state: StateReader | StateStore, path: string): StateReader | StateStore {
  const own = `log/${hostname()}${path}/`
  const reader = (of: StateReader): StateReader => ({
    get: (key) => of.get(own + key),
    list: async <T>({ prefix = '' }: StateRange = {}) =>
      (await of.list<T>({ prefix: own + prefix })).map(({ key, value }) => ({ key: key.slice(own.length), value })),
  })
  if (!('transaction' in state)) return reader(state)
  const within = (tx: StateTransaction): StateTransaction => ({
    ...reader(tx),
    put: (key, value) => tx.put(own + key, value),
    delete: (key) => tx.delete(own + key),
  })
  return { ...reader(state), transaction: (body) => state.transaction((tx) => body(within(tx))) }
}

export async function readHead(state: StateReader): Promise<Head | undefined> {
  const stored = await state.get<StoredHead>(HEAD)
  return stored === undefined ? undefined : { id: BigInt(stored.id), hash: stored.hash }
}

/** Hashes of the entries after which files of the log begin. */
export async function readBeginnings(state: StateReader): Promise<Set<string>> {
  return new Set((await state.list<{ after: string }>({ prefix: FILE })).map(({ value }) => value.after))
}

export class HeadKeeper {
  private readonly options: HeadOptions
  private readonly closing = new AbortController()
  private latest: Head | undefined
  private noted: Head | undefined
  private beginnings: Head[] = []
  private running: Promise<void> | undefined
  private failing = false

  private constructor(options: HeadOptions, noted: Head | undefined) {
    this.options = options
    this.noted = noted
    this.latest = noted
  }

  static async open(options: HeadOptions): Promise<HeadKeeper> {
    return new HeadKeeper(options, await readHead(options.state))
  }

  /** What was noted by the last process that wrote the log. */
  get known(): Head | undefined {
    return this.noted
  }

  /** The entry is on the disk, and the newest one. */
  note(head: Head): void {
    this.latest = head
    this.running ??= this.run()
  }

  /** The next entry is the first of a file. @param after the entry before. */
  begins(after: Head): void {
    this.beginnings.push(after)
  }

  /** Notes what is not noted yet. Safe twice. */
  async close(): Promise<void> {
    this.closing.abort()
    await this.running
    if (this.isBehind()) await this.write()
  }

  private isBehind(): boolean {
    return this.latest !== undefined && (this.latest.id !== this.noted?.id || this.latest.hash !== this.noted.hash || this.beginnings.length > 0)
  }

  private async run(): Promise<void> {
    const { signal } = this.closing
    const { intervalMs = INTERVAL_MS } = this.options
    while (this.isBehind() && !signal.aborted) {
      await this.write()
      await setTimeout(intervalMs, undefined, { ref: false, signal }).catch(() => {})
    }
    this.running = undefined
  }

  private async write(): Promise<void> {
    const { latest, beginnings } = this
    if (latest === undefined) return
    this.beginnings = []
    try {
      await this.options.state.transaction(async (tx) => {
        tx.put(HEAD, { id: String(latest.id), hash: latest.hash } satisfies StoredHead)
        if (beginnings.length > 0) await remember(tx, beginnings)
      })
      this.noted = latest
      this.failing = false
    } catch (error) {
      this.beginnings.unshift(...beginnings)
      if (!this.failing) this.options.failed(error)
      this.failing = true
    }
  }
}

async function remember(tx: StateTransaction, beginnings: readonly Head[]): Promise<void> {
  for (const { id, hash } of beginnings) tx.put(FILE + String(id + 1n).padStart(20, '0'), { after: hash })
  const all = await tx.list({ prefix: FILE })
  for (const { key } of all.slice(0, Math.max(0, all.length - MAX_FILES))) tx.delete(key)
}
