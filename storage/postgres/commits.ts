/**
 * Commits of one owner, several in one: those that wait while another is under way go together, in one statement and with one sync.
 *
 * Invariants
 * - One statement at a time. Its transactions have an order, that of their calls, in which PostgreSQL checks and stores them; a stale one is left out.
 * - Transactions of one segment do not touch what one before them in it writes, so a segment is checked and stored as a whole.
 * - `pending` holds what is under way, the newest write of a key: for bodies of transactions, which are checked; nobody else may read it. When a transaction is
 *   found stale, or a commit fails, what is pending may rest on what never was: it is all forgotten (`generation`), and what began before that is not added any
 *   more. So the first transaction of a generation has read what is stored, and it is stale only if another was stored meanwhile: somebody always gets on.
 * - An answer that is lost is looked for (`settle`) before anybody is told anything: a commit has happened, or it never will.
 */
import { randomBytes } from 'node:crypto'
import { failureOf, isPassing, isRefused, NotConnected } from './connections.ts'
import type { Draft } from './draft.ts'
import type { Link } from './link.ts'
import { isWithin } from './ranges.ts'
import type { Statements } from './tables.ts'
import type { Watches } from './watches.ts'

const MAX_TRANSACTIONS = 256
/** Of a group: what is more waits for the next one. */
const MAX_BYTES = 1 << 20

interface CommitNotes {
  /** @param seconds until the answer. */
  committed(transactions: number, stale: number, seconds: number): void
  settled(): void
}

interface Waiting {
  draft: Draft
  resolve(isStored: boolean): void
  reject(error: unknown): void
}

export class OwnerCommits {
  readonly pending = new Map<string, string | undefined>()
  generation = 0
  /** Whose writes those are. */
  private readonly writers = new Map<string, Draft>()
  private readonly owner: string
  private readonly link: Link
  private readonly statements: Statements
  private readonly watches: Watches
  private readonly notes: CommitNotes
  private waiting: Waiting[] = []
  private underWay = false
  private turn: Promise<unknown> = Promise.resolve()

  constructor(owner: string, link: Link, statements: Statements, watches: Watches, notes: CommitNotes) {
    this.owner = owner
    this.link = link
    this.statements = statements
    this.watches = watches
    this.notes = notes
  }

  /** Durable when it resolves with true; with false: something that was read is another now. @throws STORAGE_FULL, OVERLOADED, DATABASE_CLOSED. */
  commit(draft: Draft, generation: number): Promise<boolean> {
    if (draft.torn) return Promise.resolve(false)
    if (generation === this.generation)
      for (const [key, text] of draft.writes) {
        this.pending.set(key, text)
        this.writers.set(key, draft)
      }
    return new Promise((resolve, reject) => {
      this.waiting.push({ draft, resolve, reject })
      if (!this.underWay) void this.commitAll()
    })
  }

  /** One after the other: transactions that others have overtaken. */
  inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.turn.then(act)
    this.turn = done.catch(() => {})
    return done
  }

  /** Never rejects. */
  private async commitAll(): Promise<void> {
    this.underWay = true
    while (this.waiting.length > 0) {
      const group = this.nextGroup()
      try {
        const since = performance.now()
        const stale = await this.store(group)
        if (stale.size > 0) this.forget()
        this.notes.committed(group.length, stale.size, (performance.now() - since) / 1000)
        for (const [index, one] of group.entries()) this.tell(one, () => one.resolve(!stale.has(index)))
      } catch (error) {
        this.forget()
        for (const one of group) this.tell(one, () => one.reject(error))
      }
    }
    this.underWay = false
  }

  private forget(): void {
    this.generation++
    this.pending.clear()
    this.writers.clear()
  }

  private nextGroup(): Waiting[] {
    let bytes = 0
    let n = 0
    for (; n < this.waiting.length && n < MAX_TRANSACTIONS && bytes < MAX_BYTES; n++)
      for (const [key, text = ''] of this.waiting[n].draft.writes) bytes += key.length + text.length
    return this.waiting.splice(0, n)
  }

  private tell({ draft }: Waiting, tell: () => void): void {
    for (const key of draft.writes.keys()) {
      if (this.writers.get(key) !== draft) continue
      this.writers.delete(key)
      this.pending.delete(key)
    }
    tell()
  }

  /** @returns places in the group of those that are stale. */
  private async store(group: readonly Waiting[]): Promise<Set<number>> {
    this.link.requireOpen()
    const drafts = group.map(({ draft }) => draft)
    const changed = this.changed(drafts)
    const values = [...parameters(drafts), this.watches.id, ...changed]
    const patience = this.link.patience()
    for (;;) {
      const id = newId()
      try {
        const [{ stale }] = await this.link.connections.query<{ stale: number[] }>({ name: 'svc-commit', text: this.statements.commit }, [
          id,
          this.owner,
          ...values,
        ])
        this.link.reached()
        if (changed[0].length > 0) this.watches.announce()
        return new Set(stale)
      } catch (error) {
        this.link.note(error)
        if (!(error instanceof NotConnected || isRefused(error))) {
          const found = await this.settle(id, error)
          if (found !== undefined) return found
        }
        if (!isPassing(error) || !(await patience.wait())) {
          this.link.requireOpen()
          throw failureOf('commit a state transaction', error)
        }
      }
    }
  }

  /** Of writes that others may want to know of: place of the transaction, and key. */
  private changed(drafts: readonly Draft[]): [number[], Buffer[]] {
    const [places, keys]: [number[], Buffer[]] = [[], []]
    for (const [tx, { writes }] of drafts.entries())
      for (const key of writes.keys()) {
        if (!this.watches.wants(this.owner, key)) continue
        places.push(tx)
        keys.push(Buffer.from(key))
      }
    return [places, keys]
  }

  /** What became of a commit whose answer is lost. @returns undefined: it has not happened and never will. @throws OVERLOADED when nobody can say in time. */
  private async settle(id: string, lost: unknown): Promise<Set<number> | undefined> {
    // Of its own: the answer may have been waited for longer than anything is tried again.
    const patience = this.link.patience()
    for (;;) {
      try {
        const found = await this.link.connections.run(async (client) => {
          const { rowCount } = await client.query(this.statements.giveUp, [id])
          if (rowCount === 1) return undefined
          return (await client.query<{ stale: number[] | null }>(this.statements.outcome, [id])).rows[0]
        })
        this.notes.settled()
        // A row without them is of an earlier try to give it up, whose answer was lost too.
        return found === undefined || found.stale === null ? undefined : new Set(found.stale)
      } catch (error) {
        this.link.note(error)
        if (await patience.wait()) continue
        this.watches.disown(this.owner)
        throw failureOf('commit a state transaction', lost, true)
      }
    }
  }
}

/** Ordered by time, so that the newest lie together, and the old ones too. */
function newId(): string {
  return idAt(Date.now(), randomBytes(16))
}

/** A UUID of version 7; the first of its millisecond, without chance. */
export function idAt(ms: number, bytes = Buffer.alloc(16)): string {
  bytes.writeUIntBE(ms, 0, 6)
  bytes[6] = (bytes[6] & 0x0f) | 0x70
  bytes[8] = (bytes[8] & 0x3f) | 0x80
  return bytes.toString('hex')
}

/** Columns of `commit_state`. */
function parameters(drafts: readonly Draft[]): unknown[] {
  const g: unknown[][] = [[], [], [], []]
  const l: unknown[][] = [[], [], [], [], [], []]
  const w: unknown[][] = [[], [], [], []]
  const add = (columns: unknown[][], ...values: unknown[]) => values.forEach((value, i) => void columns[i + 1].push(value))
  const endSegment = () => [g, l, w].forEach((columns) => void columns[0].push(columns[1].length))
  let written = new Set<string>()
  for (const [tx, { gets, lists, writes }] of drafts.entries()) {
    if (touches(written, gets, lists, writes)) {
      endSegment()
      written = new Set()
    }
    for (const [key, digest] of gets) add(g, tx, Buffer.from(key), digest)
    for (const { from, until, limit, digest } of lists) add(l, tx, from, until, limit, digest)
    for (const [key, text] of writes) {
      written.add(key)
      add(w, tx, Buffer.from(key), text === undefined ? null : Buffer.from(text))
    }
  }
  endSegment()
  return [...g, ...l, ...w]
}

function touches(written: ReadonlySet<string>, gets: Draft['gets'], lists: Draft['lists'], writes: Draft['writes']): boolean {
  if (written.size === 0) return false
  for (const key of gets.keys()) if (written.has(key)) return true
  for (const key of writes.keys()) if (written.has(key)) return true
  return lists.some(({ range }) => [...written].some((key) => isWithin(key, range)))
}
