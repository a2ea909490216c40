/**
 * Writes blocks to tables: one at a time into each, so that of two writes the later one's values win; rows that come while a block is on its way join the next.
 * The tables and columns that a block needs are made before it, once a process.
 */
import { randomUUID } from 'node:crypto'
import { SvcError } from 'svcdb/lib/errors'
import { Block } from './block.ts'
import { type Life, ownFields } from './catalog.ts'
import type { Client } from './client.ts'
import { define, hasColumns, hasTables } from './definitions.ts'
import { addColumns, columnName, createNamespace, createOwn, databaseOf, ownTable, type Place, tablesOf } from './statements.ts'

interface Waiting {
  block: Block
  life: Life | undefined
  written: PromiseWithResolvers<void>
}

class Table {
  waiting: Waiting | undefined
  writing = false
}

export class Tables {
  private readonly client: Client
  private readonly place: Place
  private readonly maxBytes: number
  private readonly tables = new Map<string, Table>()
  private readonly namespaces = new Map<string, Promise<void>>()
  /** Fields that a life's own table is known to have; undefined: no table. */
  private readonly columns = new Map<number, number>()
  private bytes = 0

  constructor(client: Client, place: Place, maxBytes: number) {
    this.client = client
    this.place = place
    this.maxBytes = maxBytes
  }

  /** Bytes of rows that wait, or are on their way. */
  get waitingBytes(): number {
    return this.bytes
  }

  /** Counts rows that wait to be judged. @returns ends that: from then on they are counted as they are stored. @throws BACKPRESSURE when more wait than may. */
  wait(bytes: number): () => void {
    this.requireRoom()
    this.bytes += bytes
    return () => void (this.bytes -= bytes)
  }

  private requireRoom(): void {
    if (this.bytes < this.maxBytes) return
    throw new SvcError(
      'BACKPRESSURE',
      `cannot write: ${this.bytes} bytes wait for ClickHouse, clickhouse.max_waiting_bytes is ${this.maxBytes}; send again later`,
    )
  }

  /** Makes the database of a namespace, and what all of its measurements share. */
  async ensureNamespace(namespace: string): Promise<void> {
    let made = this.namespaces.get(namespace)
    if (made === undefined) {
      const { client, place } = this
      const tables = ['series', 'narrow'].flatMap((table) => tablesOf(place, table))
      const exist = (): Promise<boolean> => hasTables(client, databaseOf(place, namespace), tables)
      made = define(client, place, `the tables of namespace "${namespace}"`, createNamespace(place, namespace), exist)
      this.namespaces.set(namespace, made)
      made.catch(() => this.namespaces.delete(namespace))
    }
    await made
  }

  /** @param life whose own table the rows are for; undefined = the shared one. @returns when the rows are stored. */
  add(namespace: string, life: Life | undefined, fill: (block: Block) => void): Promise<void> {
    const name = life === undefined ? 'narrow' : ownTable(life.number)
    const key = `${databaseOf(this.place, namespace)}.${name}`
    const table = this.tables.get(key) ?? new Table()
    this.tables.set(key, table)
    table.waiting ??= { block: new Block(life === undefined), life, written: Promise.withResolvers() }
    const { block, written } = table.waiting
    const before = block.bytes
    fill(block)
    this.bytes += block.bytes - before
    if (!table.writing) void this.write(key, namespace, table)
    return written.promise
  }

  /** The table of a life has gone, or may have. */
  forget(life: Life): void {
    this.columns.delete(life.number)
  }

  private async write(key: string, namespace: string, table: Table): Promise<void> {
    table.writing = true
    // What comes in this turn of the loop joins.
    await new Promise((resolve) => setImmediate(resolve))
    for (let next = table.waiting; next !== undefined; next = table.waiting) {
      table.waiting = undefined
      const { block, life, written } = next
      try {
        await this.ensureNamespace(namespace)
        if (life !== undefined) await this.ensureOwn(life)
        await this.client.insert(key, block.columns(), block.rows, randomUUID())
        written.resolve()
      } catch (error) {
        written.reject(error)
      } finally {
        this.bytes -= block.bytes
      }
    }
    table.writing = false
    this.tables.delete(key)
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
