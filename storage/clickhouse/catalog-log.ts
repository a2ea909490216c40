/**
 * The catalog's events in ClickHouse: a log that any node appends to, one at a time. An append carries the sequence that follows the newest one its node has
 * read, and that sequence is the token of the insert: of two with the same one ClickHouse stores the first and leaves out the other, whose node then reads what
 * came before it and decides anew.
 */
import { randomUUID } from 'node:crypto'
import type { FieldType } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Catalog, type CatalogEvent, type EventKind, type Life } from './catalog.ts'
import type { Client } from './client.ts'
import { define, hasTables } from './definitions.ts'
import type { ReadBlock } from './native/decode.ts'
import { int64s, strings, uint64s } from './native/encode.ts'
import { CATALOG_COLUMNS, createCatalog, type Place } from './statements.ts'

const MAX_ATTEMPTS = 100
/** A node that reads every second has not read for this long: it looks before it appends. */
const OLD_MS = 5000
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

interface Entry {
  sequence: number
  position: number
  append: string
  event: CatalogEvent
}

export class CatalogLog {
  readonly catalog = new Catalog()
  private readonly client: Client
  private readonly place: Place
  private readonly changed: (lives: ReadonlySet<Life>) => void
  private readonly now: () => number
  /** When the newest reading that was answered began. */
  private readAt = 0
  private turn: Promise<unknown> = Promise.resolve()
  private reading: Promise<void> | undefined

  /** @param now milliseconds. @param changed told of the lives that events were about. */
  constructor(client: Client, place: Place, now: () => number, changed: (lives: ReadonlySet<Life>) => void) {
    this.now = now
    this.client = client
    this.place = place
    this.changed = changed
  }

  async open(): Promise<void> {
    const { client, place } = this
    await define(client, place, `the catalog of prefix "${place.prefix}"`, createCatalog(place), () => hasTables(client, place.prefix, ['catalog']))
    await this.refresh()
  }

  /** Reads what was appended before the call. */
  async refresh(): Promise<void> {
    // One that is under way may have begun too early; those that wait for it share the next.
    if (this.reading !== undefined) await this.reading.catch(() => {})
    this.reading ??= this.read()
      .then(() => {})
      .finally(() => {
        this.reading = undefined
      })
    await this.reading
  }

  /**
   * @param decide what to append, from the catalog as it is; nothing when there is nothing to do. Asked again when others came first.
   * @throws CONFLICT when others came first each time, and what `decide` throws.
   */
  append(decide: (catalog: Catalog) => readonly CatalogEvent[]): Promise<void> {
    const done = this.turn.then(async () => {
      let looked = false
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const events = decide(this.catalog)
        if (events.length === 0) return
        // So long that others may have come far: the token of the sequence that would follow may be forgotten.
        const old = !looked && Math.abs(this.now() - this.readAt) > OLD_MS
        if (!old && (await this.tryAppend(events))) return
        looked = true
        if (old) await this.refresh()
      }
      throw new SvcError('CONFLICT', 'cannot change the catalog in ClickHouse: other nodes came first each time; try again')
    })
    this.turn = done.catch(() => {})
    return done
  }

  private async tryAppend(events: readonly CatalogEvent[]): Promise<boolean> {
    const sequence = this.catalog.sequence + 1
    const append = randomUUID()
    await this.client.insert(`${this.place.prefix}.catalog`, columnsOf(sequence, append, events), events.length, `catalog ${sequence}`, {
      sequential: true,
    })
    while (this.reading !== undefined) await this.reading.catch(() => {})
    // A replica may show it late.
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const read = this.read()
      this.reading = read.then(() => {}).finally(() => (this.reading = undefined))
      this.reading.catch(() => {})
      await read
      const first = this.newest.get(sequence)
      if (first !== undefined) return first === append
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new SvcError('OVERLOADED', `cannot change the catalog in ClickHouse: event ${sequence} was stored and is not to be seen`)
  }

  /** Whose the newest sequences are. */
  private readonly newest = new Map<number, string>()

  private async read(): Promise<void> {
    const { catalog } = this
    const begun = this.now()
    const select = `SELECT ${CATALOG_COLUMNS.map(([name]) => name).join(', ')} FROM ${this.place.prefix}.catalog WHERE sequence > ${catalog.sequence}`
    const settings = this.place.cluster === undefined ? [] : ['select_sequential_consistency = 1']
    const entries: Entry[] = []
    for await (const block of this.client.blocks(`${select} ORDER BY sequence, position`, { settings })) entries.push(...entriesOf(block))
    this.readAt = begun
    const lives = new Set<Life>()
    for (const { sequence, position, append, event } of entries) {
      this.newest.set(sequence, append)
      const life = catalog.apply(sequence, position, event)
      if (life !== undefined) lives.add(life)
    }
    for (const sequence of this.newest.keys()) if (sequence < catalog.sequence - MAX_ATTEMPTS) this.newest.delete(sequence)
    if (lives.size > 0) this.changed(lives)
  }
}

function columnsOf(sequence: number, append: string, events: readonly CatalogEvent[]) {
  const data: Record<(typeof CATALOG_COLUMNS)[number][0], Uint8Array> = {
    sequence: uint64s(events.map(() => sequence)),
    append: strings(events.map(() => append)),
    position: uint64s(events.map((_, i) => i)),
    kind: strings(events.map(({ kind }) => kind)),
    namespace: strings(events.map(({ namespace }) => namespace)),
    measurement: strings(events.map(({ measurement }) => measurement)),
    life: uint64s(events.map(({ life }) => life)),
    field: strings(events.map(({ field }) => field?.name ?? '')),
    type: strings(events.map(({ field }) => field?.type ?? '')),
    scale: uint64s(events.map(({ field }) => field?.scale ?? 0)),
    narrow: uint64s(events.map(({ narrow }) => (narrow === true ? 1 : 0))),
    deadline: int64s(events.map(({ deadline }) => deadline ?? 0n)),
  }
  return CATALOG_COLUMNS.map(([name, type]) => ({ name, type, data: data[name] }))
}

function entriesOf({ rows, columns }: ReadBlock): Entry[] {
  const named = Object.fromEntries(columns.map((column) => [column.name, column]))
  const number = (name: string, row: number): number => Number(new BigUint64Array(named[name].bytes.buffer)[row])
  const text = (name: string, row: number): string => decoder.decode(named[name].texts?.[row])
  return Array.from({ length: rows }, (_, row) => {
    const type = text('type', row) as FieldType
    const scale = type === 'decimal' ? { scale: number('scale', row) } : {}
    const event: CatalogEvent = {
      kind: text('kind', row) as EventKind,
      namespace: text('namespace', row),
      measurement: text('measurement', row),
      life: number('life', row),
      deadline: new BigInt64Array(named.deadline.bytes.buffer)[row],
      narrow: number('narrow', row) === 1,
      ...((type as string) === '' ? {} : { field: { name: text('field', row), type, ...scale } }),
    }
    return { sequence: number('sequence', row), position: number('position', row), append: text('append', row), event }
  })
}
