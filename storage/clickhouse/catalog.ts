/**
 * What measurements there are, out of the events of the catalog in their order. Every node that has read the same events has the same catalog, so that names of
 * tables and columns need no other agreement.
 *
 * A measurement's life begins with its first field and ends when it is dropped for good. Its number is that of the event that began it; a name that is taken
 * again after a drop is another life.
 */
import type { FieldInfo, FieldType, MeasurementInfo } from 'svcdb'
import { KEPT_ENDED_DROPS } from '../common/retention.ts'
import { SortedKeys } from '../common/sorted-keys.ts'
import type { ColumnDefinition } from './statements.ts'

export type EventKind = 'create' | 'field' | 'infinite' | 'drop' | 'restore' | 'end' | 'release'

export interface CatalogEvent {
  kind: EventKind
  namespace: string
  measurement: string
  /** Of `create` and of what comes with it: 0, which stands for the number it will have. */
  life: number
  /** Of `field`. */
  field?: FieldInfo
  /** Of `field`: its values are in the table that narrow measurements share. */
  narrow?: boolean
  /** Of `drop`, nanoseconds. */
  deadline?: bigint
}

export interface StoredField extends ColumnDefinition {
  info: FieldInfo
  narrow: boolean
}

export interface Life {
  readonly number: number
  readonly namespace: string
  readonly name: string
  /** In the order of their creation. */
  readonly fields: Map<string, StoredField>
  /** Sequence of the newest event that gave series back; 0 = none has. */
  released: number
  /** Its own table may have a NaN or an infinity, which readers of rows do not see. */
  infinite: boolean
  /** It has been dropped, and may have been restored since. */
  dropped: boolean
  /** Series that are known to be stored and not given back since, by the bytes of their ids. */
  readonly known: Set<string>
  /** Series that were stored before the newest event that gave some back: they may be among those, and are stored again before they get rows. */
  readonly doubtful: Set<string>
  /** How often it was forgotten which are stored, as their table was not there. */
  forgotten: number
  /** Tag keys of series stored, as read last and since; undefined: to be read. Those of other nodes since then are not among them. */
  tagKeys: Set<string> | undefined
  /** Series stored, as counted last and since. */
  series: number
}

/** Numbers of lives: the sequence of an append, and the place in it. */
export const PLACES = 1_000_000

export class Catalog {
  /** Of the newest event. */
  sequence = 0
  readonly lives = new Map<number, Life>()
  private readonly byName = new Map<string, { lives: Map<string, Life>; sorted: SortedKeys }>()
  /** Pending drops, oldest first. */
  pending: { life: Life; deadline: bigint }[] = []
  /** Names whose drop can no longer be undone, oldest first. */
  private readonly ended = new Set<string>()
  /** Namespaces that were written to. */
  readonly namespaces = new Set<string>()
  /** Fields of all lives. */
  fields = 0
  private readonly fieldCounts = new Map<string, number>()

  find(namespace: string, name: string): Life | undefined {
    return this.byName.get(namespace)?.lives.get(name)
  }

  /** By name. @param offset so many are passed over. */
  list(namespace: string, offset = 0, limit = Number.POSITIVE_INFINITY): Life[] {
    const names = this.byName.get(namespace)
    return names === undefined ? [] : names.sorted.page(offset, limit).map((name) => names.lives.get(name) as Life)
  }

  /** How many `list` has. */
  count(namespace: string): number {
    return this.byName.get(namespace)?.sorted.size ?? 0
  }

  /** Those that can be restored included. */
  livesOf(namespace: string): Life[] {
    return [...this.lives.values()].filter((life) => life.namespace === namespace)
  }

  hasEnded(namespace: string, name: string): boolean {
    return this.ended.has(endedKey(namespace, name))
  }

  get series(): number {
    let count = 0
    for (const life of this.lives.values()) count += life.series
    return count
  }

  seriesOf(namespace: string): number {
    let count = 0
    for (const life of this.lives.values()) if (life.namespace === namespace) count += life.series
    return count
  }

  /** Fields of a namespace's lives. */
  fieldsOf(namespace: string): number {
    return this.fieldCounts.get(namespace) ?? 0
  }

  /** @returns the life that the event is of. */
  apply(sequence: number, position: number, event: CatalogEvent): Life | undefined {
    this.sequence = sequence
    if (event.kind === 'create') return this.create(sequence * PLACES + position, event)
    // Fields, and what is said of their values, come right behind the creation that they are of.
    const life =
      (event.kind === 'field' || event.kind === 'infinite') && event.life === 0 ? this.find(event.namespace, event.measurement) : this.lives.get(event.life)
    if (life === undefined) return undefined
    if (event.kind === 'field' && event.field !== undefined && addField(life, event.field, event.narrow === true)) this.countFields(life, 1)
    if (event.kind === 'infinite') life.infinite = true
    if (event.kind === 'drop') this.drop(life, event.deadline ?? 0n)
    if (event.kind === 'restore') this.restore(life)
    if (event.kind === 'end') this.end(life)
    if (event.kind === 'release') {
      life.released = sequence
      life.known.clear()
      life.tagKeys = undefined
      life.doubtful.clear()
    }
    return life
  }

  /** Which series of a namespace are stored is not known: each is looked for again. */
  forgetSeries(namespace: string): void {
    for (const life of this.livesOf(namespace)) {
      life.known.clear()
      life.doubtful.clear()
      life.forgotten++
    }
  }

  private countFields({ namespace }: Life, change: number): void {
    this.fields += change
    this.fieldCounts.set(namespace, this.fieldsOf(namespace) + change)
  }

  private create(number: number, { namespace, measurement: name }: CatalogEvent): Life {
    const life: Life = {
      number,
      namespace,
      name,
      fields: new Map(),
      released: 0,
      infinite: false,
      dropped: false,
      known: new Set(),
      tagKeys: undefined,
      doubtful: new Set(),
      forgotten: 0,
      series: 0,
    }
    this.lives.set(number, life)
    this.name(life)
    this.namespaces.add(namespace)
    return life
  }

  private name(life: Life): void {
    let names = this.byName.get(life.namespace)
    if (names === undefined) this.byName.set(life.namespace, (names = { lives: new Map(), sorted: new SortedKeys() }))
    names.lives.set(life.name, life)
    names.sorted.add(life.name)
  }

  private drop(life: Life, deadline: bigint): void {
    const names = this.byName.get(life.namespace)
    names?.lives.delete(life.name)
    names?.sorted.delete(life.name)
    life.dropped = true
    this.pending.push({ life, deadline })
  }

  private restore(life: Life): void {
    this.pending = this.pending.filter((drop) => drop.life !== life)
    life.dropped = false
    this.name(life)
  }

  private end(life: Life): void {
    this.pending = this.pending.filter((drop) => drop.life !== life)
    this.lives.delete(life.number)
    this.countFields(life, -life.fields.size)
    life.dropped = true
    const key = endedKey(life.namespace, life.name)
    this.ended.delete(key)
    this.ended.add(key)
    if (this.ended.size > KEPT_ENDED_DROPS) for (const oldest of [...this.ended].slice(0, -KEPT_ENDED_DROPS)) this.ended.delete(oldest)
  }
}

export function fieldsOf(life: Life | undefined): FieldInfo[] {
  return life === undefined ? [] : [...life.fields.values()].map(({ info }) => ({ ...info }))
}

export function infoOf(life: Life, tags: readonly string[]): MeasurementInfo {
  return { name: life.name, tags: [...tags], fields: fieldsOf(life) }
}

/** Whether a series counts as stored. */
export function isStored({ known, doubtful }: Life, key: string): boolean {
  return known.has(key) || doubtful.has(key)
}

/** Fields that are columns of the measurement's own table. */
export function ownFields(life: Life): StoredField[] {
  return [...life.fields.values()].filter(({ narrow }) => !narrow)
}

/** A measurement that begins with nothing but a float called "value" shares a table: most metrics of Prometheus are no more. */
export function beginsNarrow(fields: readonly FieldInfo[]): boolean {
  return fields.length === 1 && fields[0].name === 'value' && fields[0].type === 'float64'
}

/** @returns whether it has come. */
function addField(life: Life, info: FieldInfo, narrow: boolean): boolean {
  // Of two nodes the first decides; the second has read it before it appended, so this is what damage would look like.
  if (life.fields.has(info.name)) return false
  life.fields.set(info.name, { info, narrow, index: life.fields.size, type: info.type as FieldType, scale: info.scale ?? 0 })
  return true
}

function endedKey(namespace: string, name: string): string {
  return `${namespace}\0${name}`
}
