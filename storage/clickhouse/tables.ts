/**
 * Writes blocks to tables: one at a time into each, so that of two writes the later one's values win; rows that come while a block is on its way join the next.
 * The next does not go before it is certain what became of the one before (fence.ts).
 * The tables and columns that a block needs are made before it, once a process.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { SvcError } from 'svcdb/lib/errors'
import { Block } from './block.ts'
import { type Life, ownFields } from './catalog.ts'
import type { Client } from './client.ts'
import { define, hasColumns, hasTables } from './definitions.ts'
import { rowsOfNobody } from './fence.ts'
import { addColumns, columnName, createNamespace, createOwn, databaseOf, ownTable, type Place, tablesOf } from './statements.ts'
import { WaitingBytes } from './waiting.ts'

const LOOK_MS = 100

interface Waiting {
  block: Block
  /** Counted of it: at its end it grows by what rows lack. */
  bytes: number
  /** When its first rows came. */
  since: number
  life: Life | undefined
  written: PromiseWithResolvers<void>
}

class Table {
  readonly namespace: string
  waiting: Waiting | undefined
  writing = false
  /** Until it is certain what became of an insert. */
  fence: Promise<void> | undefined

  constructor(namespace: string) {
    this.namespace = namespace
  }
}

interface WriteLimits {
  /** Of rows that wait, or are on their way. */
  maxBytes: number
  timeoutMs: number
}

export class Tables {
  private readonly client: Client
  private readonly place: Place
  private readonly limits: WriteLimits
  private readonly tables = new Map<string, Table>()
  private readonly namespaces = new Map<string, Promise<void>>()
  /** Fields that a life's own table is known to have; undefined: no table. */
  private readonly columns = new Map<number, number>()
  private readonly made: (namespace: string) => void
  private readonly waiting: WaitingBytes

  /** @param made told when the tables that a namespace's measurements share were not there: nothing is stored in them. */
  constructor(client: Client, place: Place, limits: WriteLimits, made: (namespace: string) => void) {
    this.made = made
    this.client = client
    this.place = place
    this.limits = limits
    this.waiting = new WaitingBytes(limits.maxBytes)
  }

  /** Bytes of rows that wait, or are on their way. */
  get waitingBytes(): number {
    return this.waiting.total
  }

  /** Counts rows that wait to be judged. @returns ends that: from then on they are counted as they are stored. @throws as WaitingBytes.requireRoom. */
  wait(namespace: string, bytes: number): () => void {
    this.waiting.requireRoom(namespace)
    this.waiting.add(namespace, bytes)
    return () => this.waiting.add(namespace, -bytes)
  }

  /** Makes the database of a namespace, and what all of its measurements share. */
  async ensureNamespace(namespace: string): Promise<void> {
    let made = this.namespaces.get(namespace)
    if (made === undefined) {
      const { client, place } = this
      const tables = ['series', 'narrow'].flatMap((table) => tablesOf(place, table))
      const exist = (): Promise<boolean> => hasTables(client, databaseOf(place, namespace), tables)
      made = define(client, place, `the tables of namespace "${namespace}"`, createNamespace(place, namespace), exist).then((isNew) => {
        if (isNew) this.made(namespace)
      })
      this.namespaces.set(namespace, made)
      made.catch(() => this.namespaces.delete(namespace))
    }
    await made
  }

  /** @param life whose own table the rows are for; undefined = the shared one. @returns when the rows are stored. */
  add(namespace: string, life: Life | undefined, fill: (block: Block) => void): Promise<void> {
    const name = life === undefined ? 'narrow' : ownTable(life.number)
    const key = `${databaseOf(this.place, namespace)}.${name}`
    const table = this.tables.get(key) ?? new Table(namespace)
    this.tables.set(key, table)
    table.waiting ??= { block: new Block(life === undefined), bytes: 0, since: performance.now(), life, written: Promise.withResolvers() }
    const { waiting } = table
    const before = waiting.block.bytes
    fill(waiting.block)
    const added = waiting.block.bytes - before
    waiting.bytes += added
    this.waiting.add(namespace, added)
    if (!table.writing) void this.write(key, table)
    return waiting.written.promise
  }

  /** A table was not there: before the next use it is seen which are, and others are made. */
  lookAgain(): void {
    this.namespaces.clear()
    this.columns.clear()
  }

  /** The table of a life has gone, or may have. */
  forget(life: Life): void {
    this.columns.delete(life.number)
  }

  /** When it is certain what became of all that was written to a namespace before. @throws OVERLOADED when that takes as long as a write may. */
  async settled(namespace: string): Promise<void> {
    const fences = [...this.tables.values()].flatMap((table) => (table.namespace === namespace && table.fence !== undefined ? [table.fence] : []))
    if (fences.length === 0) return
    const given = new AbortController()
    const late = setTimeout(this.limits.timeoutMs, true, { signal: given.signal }).catch(() => false)
    const isLate = await Promise.race([Promise.all(fences).then(() => false), late])
    given.abort()
    if (isLate) throw inDoubt('nothing has changed')
  }

  private async write(key: string, table: Table): Promise<void> {
    table.writing = true
    // What comes in this turn of the loop joins.
    await new Promise((resolve) => setImmediate(resolve))
    for (let next = table.waiting; next !== undefined; next = table.waiting) {
      table.waiting = undefined
      const { block, bytes, life, written } = next
      const token = randomUUID()
      let isDoubtful = false
      try {
        await this.ensureNamespace(table.namespace)
        if (life !== undefined) await this.ensureOwn(life)
        await this.client.insert(key, block.columns(), block.rows, token, { doubt: () => (isDoubtful = true) })
        written.resolve()
        isDoubtful = false
      } catch (error) {
        if (isDoubtful) table.fence = this.fence(key, table, block, token)
        written.reject(error)
      } finally {
        this.waiting.add(table.namespace, -bytes)
      }
      await table.fence
    }
    table.writing = false
    this.tables.delete(key)
  }

  /** What comes meanwhile waits for as long as a write may take. Never rejects. */
  private async fence(key: string, table: Table, block: Block, token: string): Promise<void> {
    const looking = setInterval(() => this.refuseLate(table), LOOK_MS)
    try {
      const { columns, rows } = await rowsOfNobody(block)
      await this.client.fence(key, columns, rows, token)
    } finally {
      clearInterval(looking)
      table.fence = undefined
    }
  }

  private refuseLate(table: Table): void {
    const { waiting } = table
    if (waiting === undefined || performance.now() - waiting.since < this.limits.timeoutMs) return
    table.waiting = undefined
    this.waiting.add(table.namespace, -waiting.bytes)
    waiting.written.reject(inDoubt('nothing of these rows was stored, send again later'))
  }

  /** Sees that the tables of a measurement are there. */
  async ready(life: Life): Promise<void> {
    await this.ensureNamespace(life.namespace)
    await this.ensureOwn(life)
  }

  /** Makes a measurement's own table, with all fields that it has. */
  async ensureOwn(life: Life): Promise<void> {
    const fields = ownFields(life)
    const has = this.columns.get(life.number)
    if (has === life.fields.size || fields.length === 0) return
    const { size } = life.fields
    const { client, place } = this
    const statements = [
      ...(has === undefined ? createOwn(place, life.namespace, life.number, fields) : []),
      ...addColumns(place, life.namespace, life.number, fields),
    ]
    const names = fields.map(({ index }) => columnName(index))
    const exist = (): Promise<boolean> => hasColumns(client, databaseOf(place, life.namespace), tablesOf(place, ownTable(life.number)), names)
    await define(client, place, `the table of measurement "${life.name}"`, statements, exist)
    this.columns.set(life.number, size)
  }
}

const inDoubt = (what: string): SvcError =>
  new SvcError('OVERLOADED', `cannot write in ClickHouse: it has not answered an insert before it, and not said yet what became of that; ${what}`, {
    headers: { 'retry-after': '5' },
  })
