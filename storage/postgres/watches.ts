/**
 * What other processes commit, told to those here who want to know.
 *
 * Invariants
 * - A commit of keys that are watched leaves a row in `changes`, in its own transaction, under the owner's lock: versions of an owner have no holes, and whoever sees
 *   one sees all before it. The rows decide; a notification only says that there are some, and may be lost.
 * - Rows are looked for on the connection that stays (session.ts). A new connection may be to another server, to one that was restored say: what is known of versions
 *   is forgotten with the old one, and all who watch are told that anything may have changed.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Client, Notification } from 'pg'
import { MAX_CHANGES, type Statements } from './tables.ts'

/** How often rows are looked for where no notification comes. */
const LOOK_MS = 500
/** No answer for so long: the connection is of no use. */
const SILENT_MS = 5000
const CHANNEL = 'svc-state'

export type Told = (keys: readonly string[] | undefined) => void

interface Watched {
  prefixes: readonly string[]
  told: Told
}

interface OwnerWatches {
  /** Of the newest row that was seen; undefined: not known on this connection. */
  version: number | undefined
  /** Those who are about to know it, and wait for that. */
  beginning: number
  watched: Set<Watched>
}

interface ChangeRow {
  owner: string
  version: number
  by: Buffer
  keys: Buffer[] | null
}

interface WatchNotes {
  told(scope: 'keys' | 'any'): void
}

export class Watches {
  /** As `changes` has this process. */
  id = randomBytes(8)
  private readonly schema: string
  private readonly statements: Statements
  private readonly notes: WatchNotes
  private readonly owners = new Map<string, OwnerWatches>()
  private client: Client | undefined
  private announced: Promise<unknown> | undefined
  private hasMore = false
  private isDue = false
  private endPause: () => void = () => {}

  constructor(schema: string, statements: Statements, notes: WatchNotes) {
    this.schema = schema
    this.statements = statements
    this.notes = notes
  }

  /** Resolves when nothing is missed from then on. @returns ends it. */
  async watch(owner: string, prefixes: readonly string[], told: Told): Promise<() => void> {
    let watches = this.owners.get(owner)
    if (watches === undefined) this.owners.set(owner, (watches = { version: undefined, beginning: 0, watched: new Set() }))
    const one: Watched = { prefixes, told }
    watches.watched.add(one)
    // Without a connection all are told when there is one.
    if (this.client !== undefined && watches.version === undefined) {
      watches.beginning++
      await this.begin(this.client, [owner]).catch(() => {})
      watches.beginning--
    }
    return () => {
      watches.watched.delete(one)
      if (watches.watched.size === 0 && this.owners.get(owner) === watches) this.owners.delete(owner)
    }
  }

  /** Whether others may want to know of a key. */
  wants(owner: string, key: string): boolean {
    const watches = this.owners.get(owner)
    if (watches === undefined) return false
    for (const { prefixes } of watches.watched) if (prefixes.some((prefix) => key.startsWith(prefix))) return true
    return false
  }

  /** Nobody here knows whether a commit of this process is stored, or will be: it counts as another's. */
  disown(owner: string): void {
    this.id = randomBytes(8)
    for (const one of this.owners.get(owner)?.watched ?? []) this.tell(one, undefined)
  }

  /** Something that is watched was committed here: others look at once. */
  announce(): void {
    this.hasMore = true
    this.announced ??= this.announceAll().finally(() => {
      this.announced = undefined
    })
  }

  /** Begins to listen, and tells all who watch that anything may have changed; then goes on until the connection ends. @throws what PostgreSQL says. */
  async attend(client: Client, closing: AbortSignal): Promise<void> {
    client.on('notification', ({ payload }: Notification) => {
      if (payload?.startsWith(`${this.schema} `) && payload !== this.payload) this.wake()
    })
    await inTime(client.query(`LISTEN "${CHANNEL}"`))
    for (const watches of this.owners.values()) watches.version = undefined
    this.client = client
    await this.begin(client, [...this.owners.keys()])
    for (const { watched } of this.owners.values()) for (const one of watched) this.tell(one, undefined)
    void this.follow(client, closing)
  }

  /** Never rejects. */
  private async follow(client: Client, closing: AbortSignal): Promise<void> {
    let over = closing.aborted
    const end = () => {
      over = true
      this.wake()
    }
    client.once('end', end)
    closing.addEventListener('abort', end, { once: true })
    try {
      while (!over) {
        await this.pause()
        if (!over) await this.look(client)
      }
    } catch {
      // It is lost, or of no use: there will be another.
      await client.end().catch(() => {})
    } finally {
      if (this.client === client) this.client = undefined
      closing.removeEventListener('abort', end)
    }
  }

  private wake(): void {
    this.isDue = true
    this.endPause()
  }

  private async pause(): Promise<void> {
    const woken = new AbortController()
    this.endPause = () => woken.abort()
    if (!this.isDue) await setTimeout(LOOK_MS, undefined, { signal: woken.signal, ref: false }).catch(() => {})
    this.isDue = false
  }

  private async begin(client: Client, owners: string[]): Promise<void> {
    if (owners.length === 0) return
    const { rows } = await inTime(client.query<{ owner: string; version: number | null }>(this.statements.versions, [owners]))
    const found = new Map(rows.map(({ owner, version }) => [owner, version ?? 0]))
    for (const owner of owners) {
      const watches = this.owners.get(owner)
      if (watches !== undefined) watches.version ??= found.get(owner) ?? 0
    }
  }

  private async look(client: Client): Promise<void> {
    const late = [...this.owners].filter(([, { version, beginning }]) => version === undefined && beginning === 0)
    await this.begin(
      client,
      late.map(([owner]) => owner),
    )
    for (const [, { watched }] of late) for (const one of watched) this.tell(one, undefined)
    const known = [...this.owners].filter(([, { version }]) => version !== undefined)
    const values = [known.map(([owner]) => owner), known.map(([, { version }]) => version)]
    // Asked for without owners too: the answer shows that the connection is alive.
    const { rows } = await inTime(client.query<ChangeRow>(this.statements.changes, values))
    for (const row of rows) this.take(row)
    if (rows.length === MAX_CHANGES) this.wake()
  }

  private take({ owner, version, by, keys }: ChangeRow): void {
    const watches = this.owners.get(owner)
    if (watches?.version === undefined || version <= watches.version) return
    const isNext = version === watches.version + 1
    watches.version = version
    if (isNext && by.equals(this.id)) return
    const texts = isNext ? keys?.map((key) => key.toString()) : undefined
    for (const one of watches.watched) {
      const own = texts?.filter((key) => one.prefixes.some((prefix) => key.startsWith(prefix)))
      if (own === undefined || own.length > 0) this.tell(one, own)
    }
  }

  private tell({ told }: Watched, keys: readonly string[] | undefined): void {
    this.notes.told(keys === undefined ? 'any' : 'keys')
    told(keys)
  }

  private get payload(): string {
    return `${this.schema} ${this.id.toString('hex')}`
  }

  /** What is announced while one is under way goes with the next. */
  private async announceAll(): Promise<void> {
    while (this.hasMore && this.client !== undefined) {
      this.hasMore = false
      await this.client.query('SELECT pg_notify($1, $2)', [CHANNEL, this.payload]).catch(() => {})
    }
  }
}

/** @throws Error when there is no answer in time. */
async function inTime<T>(answer: Promise<T>): Promise<T> {
  const cancel = new AbortController()
  const late = setTimeout(SILENT_MS, undefined, { signal: cancel.signal, ref: false }).then(() => {
    throw new Error('no answer')
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    cancel.abort()
    late.catch(() => {})
    answer.catch(() => {})
  }
}
