/**
 * Measurements, their fields, and the tables their rows lie in.
 *
 * A measurement with one field keeps its rows in a table shared by all measurements whose only field has that name and type: thousands of
 * metrics then fill a handful of segments. With a second field it gets a table of its own; rows written before stay where they are.
 *
 * Invariants
 * - Every change by a write that is not durable yet can be undone, newest first (`Undo`).
 * - What is not durable yet is seen by the writes behind it alone: the catalog, the engine threads, memtables and answers know what `confirm` was
 *   told of. A number that was given and taken back is therefore named nowhere, and may be given again; see
 *   docs/decisions/019-catalog-commits.md.
 */
import type { FieldInfo, FieldType, MeasurementInfo, MeasurementRef } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { NamespaceGate } from '../../common/namespace-gate.ts'
import { SortedKeys } from '../../common/sorted-keys.ts'
import type { FieldDef, MeasurementDef, TableDef } from '../threads/definitions.ts'
import type { Definitions } from '../wal/record.ts'

export type Undo = (() => void)[]

export class Measurement implements MeasurementRef {
  readonly id: number
  readonly namespace: string
  readonly name: string
  /** Those of writes on their way included. */
  readonly fields = new Map<string, FieldDef>()
  /** Ascending by id. */
  readonly list: FieldDef[] = []
  /** The first of `list`: those that durable records define. */
  readonly durableFields: FieldDef[] = []
  /** Where new rows go; undefined until the first write. */
  home: Table | undefined
  /** All tables that may hold rows of it, oldest first. */
  tables: Table[] = []
  /** The first of `tables`, likewise. */
  readonly durableTables: Table[] = []
  /** Named by a write; one that is not may be forgotten. */
  kept = false
  /** Defined by a durable record. */
  durable = false

  /** Names of columns that a new field cannot have, in lower case. */
  private taken = new Set<string>()
  /** Highest number that one of `durableFields` had. */
  private newestDurable = -1

  constructor(id: number, namespace: string, name: string) {
    this.id = id
    this.namespace = namespace
    this.name = name
  }

  /** Names of columns that a new field cannot have; who takes one adds it. Made anew only when fields came or went in another way. */
  columnNames(): Set<string> {
    if (this.taken.size !== RESERVED_COLUMNS.length + this.list.length)
      this.taken = new Set([...RESERVED_COLUMNS, ...this.list.map(({ column }) => column.toLowerCase())])
    return this.taken
  }

  add(field: FieldDef): void {
    const last = this.list.at(-1)
    this.list.push(field)
    if (last !== undefined && field.id < last.id) this.list.sort((a, b) => a.id - b.id)
    this.fields.set(field.name, field)
  }

  remove(field: FieldDef): void {
    for (const list of [this.list, this.durableFields]) {
      const at = list.lastIndexOf(field)
      if (at >= 0) list.splice(at, 1)
    }
    this.fields.delete(field.name)
    this.taken = new Set()
  }

  /** A durable record defines the field; it may be told so again. */
  settleField(field: FieldDef): void {
    const { durableFields } = this
    if (field.id <= this.newestDurable && durableFields.some(({ id }) => id === field.id)) return
    durableFields.push(field)
    this.newestDurable = Math.max(this.newestDurable, field.id)
  }

  /** As durable records define it. */
  def(): MeasurementDef {
    const { id, namespace, name, durableFields, durableTables } = this
    return { id, namespace, name, fields: [...durableFields], tables: durableTables.map((table) => table.id) }
  }
}

export class Table {
  readonly id: number
  /** Its measurement's id; -1 when it is shared. */
  readonly measurement: number
  /** Of an own table, the durable ones of its measurement: the same array. */
  fields: FieldDef[]
  /** Defined by a durable record. */
  durable = false

  constructor(id: number, measurement: number, fields: FieldDef[]) {
    this.id = id
    this.measurement = measurement
    this.fields = fields
  }

  def(): TableDef {
    return { id: this.id, measurement: this.measurement, fields: [...this.fields] }
  }
}

interface Names {
  all: Map<string, Measurement>
  /** Those of measurements to see. */
  shown: SortedKeys
}

export class Schema {
  readonly byId: (Measurement | undefined)[] = []
  readonly tables: (Table | undefined)[] = []
  nextMeasurement = 0
  nextTable = 0
  /** Dropped measurements that can still be restored: under no name, their rows untouched. */
  readonly pending = new Map<number, Measurement>()
  /** Own tables of measurements that are gone → the log file being written when they went: older rows of theirs may still be replayed. */
  readonly goneTables = new Map<number, number>()
  private readonly byName = new Map<string, Names>()
  private readonly sharedTables = new Map<string, Table>()
  /** Of all measurements, those of writes on their way and of dropped measurements that can be restored included. */
  fields = 0
  private provisional: Measurement[] = []
  /** Of each namespace, likewise. */
  private readonly fieldCounts = new Map<string, number>()
  private readonly gate: NamespaceGate

  constructor(gate = new NamespaceGate()) {
    this.gate = gate
  }

  find(namespace: string, name: string): Measurement | undefined {
    return this.byName.get(namespace)?.all.get(name)
  }

  /** The measurement of that name, provisional when new. The name has been checked. @throws SvcError when its namespace may have no more. */
  resolve(namespace: string, name: string): Measurement {
    const known = this.find(namespace, name)
    if (known !== undefined) return known
    this.gate.requireRoom(namespace, 'measurements', this.count(namespace))
    const measurement = new Measurement(this.nextMeasurement++, namespace, name)
    this.insert(measurement)
    this.provisional.push(measurement)
    return measurement
  }

  /** Forgets measurements no durable write has named. Returns whether there were any. */
  releaseProvisional(): boolean {
    const gone = this.provisional.filter(({ kept, id }) => !kept && !this.pending.has(id))
    // One whose drop is on its way comes back when the log refuses that: its number is not free.
    this.provisional = this.provisional.filter(({ kept, id }) => !kept && this.pending.has(id))
    for (const { id, namespace, name } of gone) {
      this.byId[id] = undefined
      // Whoever names a namespace may be refused: nothing of the name stays.
      this.removeName(namespace, name, id)
    }
    // Nothing durable names them: numbers at the end are free again.
    const free = new Set(gone.map(({ id }) => id))
    while (free.has(this.nextMeasurement - 1)) this.byId.length = --this.nextMeasurement
    return gone.length > 0
  }

  /** Measurements under a name, provisional ones included. */
  count(namespace: string): number {
    return this.byName.get(namespace)?.all.size ?? 0
  }

  /** Those with measurements to see. */
  namespaces(): string[] {
    const shown: string[] = []
    for (const [namespace, names] of this.byName) if (names.shown.size > 0) shown.push(namespace)
    return shown.sort()
  }

  /** All that has data of a namespace: live, or dropped and still to be restored. */
  *owned(namespace: string): Generator<Measurement> {
    yield* this.byName.get(namespace)?.all.values() ?? []
    for (const measurement of this.pending.values()) if (measurement.namespace === namespace) yield measurement
  }

  owns(namespace: string): boolean {
    return this.owned(namespace).next().done !== true
  }

  /** Tables of measurements with just one field. */
  get sharedOnes(): Iterable<Table> {
    return this.sharedTables.values()
  }

  /** How many measurements there are to see. */
  shownCount(namespace: string): number {
    return this.byName.get(namespace)?.shown.size ?? 0
  }

  /** Measurements to see, by name. @param offset so many are passed over. */
  list(namespace: string, offset = 0, limit = Number.POSITIVE_INFINITY): Measurement[] {
    const names = this.byName.get(namespace)
    return names === undefined ? [] : names.shown.page(offset, limit).map((name) => names.all.get(name) as Measurement)
  }

  /** Marks a measurement as named by a write. */
  keep(measurement: Measurement, definitions: Definitions, undo: Undo): void {
    if (measurement.kept) return
    measurement.kept = true
    const { id, namespace, name } = measurement
    ;(definitions.measurements ??= []).push({ id, namespace, name })
    undo.push(() => {
      measurement.kept = false
      this.provisional.push(measurement)
    })
  }

  addField(measurement: Measurement, name: string, type: FieldType, scale: number, definitions: Definitions, undo: Undo): FieldDef {
    const id = (measurement.list.at(-1)?.id ?? -1) + 1
    const field: FieldDef = { id, name, type, scale, column: columnName(name, measurement.columnNames()) }
    measurement.add(field)
    this.countFields(measurement, 1)
    ;(definitions.fields ??= []).push({ measurement: measurement.id, field })
    undo.push(() => this.removeField(measurement, field))
    return field
  }

  /** How many fields the namespace may have besides those it has. */
  fieldsLeft(namespace: string): number {
    return this.gate.fieldsLeft(namespace, this.fieldCounts.get(namespace) ?? 0, this.fields)
  }

  /** Why there is no room for a field. */
  noFieldLeft(measurement: Measurement, field: string): SvcError {
    return this.gate.noFieldLeft(measurement, field, this.fieldCounts.get(measurement.namespace) ?? 0, this.fields)
  }

  /** The definitions of a record that is durable now: from here on others than writes see them. Call in the order of the log. */
  confirm({ measurements = [], tables = [], fields = [], homes = [] }: Definitions): void {
    for (const { id } of measurements) {
      const measurement = this.any(id)
      if (measurement === undefined) continue
      measurement.durable = true
      // Not one that was dropped meanwhile.
      if (this.find(measurement.namespace, measurement.name) === measurement) this.insert(measurement)
    }
    for (const { measurement, field } of fields) {
      const owner = this.any(measurement)
      if (owner?.fields.get(field.name)?.id === field.id) owner.settleField(field)
    }
    for (const { id } of tables) {
      const table = this.tables[id]
      if (table !== undefined) table.durable = true
    }
    for (const { measurement, table } of homes) {
      const owner = this.any(measurement)
      const home = this.tables[table]
      if (owner !== undefined && home !== undefined && !owner.durableTables.includes(home)) owner.durableTables.push(home)
    }
  }

  /** Decides where the measurement's rows go from now on: the shared table while it has one field, else its own. */
  settle(measurement: Measurement, definitions: Definitions, undo: Undo): Table {
    const { home } = measurement
    if (home !== undefined && (home.measurement >= 0 || measurement.list.length === 1)) return home
    const table = measurement.list.length === 1 ? this.shared(measurement.list[0], definitions, undo) : this.own(measurement, definitions, undo)
    measurement.home = table
    measurement.tables = [...measurement.tables, table]
    ;(definitions.homes ??= []).push({ measurement: measurement.id, table: table.id })
    undo.push(() => {
      measurement.home = home
      measurement.tables = measurement.tables.slice(0, -1)
    })
    return table
  }

  /** A measurement that has data: live, or dropped and still to be restored. */
  any(id: number): Measurement | undefined {
    return this.byId[id] ?? this.pending.get(id)
  }

  /** Takes a dropped measurement out of sight. */
  hide(measurement: Measurement): void {
    this.unname(measurement)
    this.pending.set(measurement.id, measurement)
  }

  /** Undoes `hide`; the caller has made sure that the name is free. */
  reveal(measurement: Measurement): void {
    this.pending.delete(measurement.id)
    // Its own first write has failed as well.
    if (!measurement.kept && !this.provisional.includes(measurement)) this.provisional.push(measurement)
    const holder = this.find(measurement.namespace, measurement.name)
    // What a decoder has begun to write under the name has to be looked up again.
    if (holder !== undefined && !holder.kept) this.byId[holder.id] = undefined
    this.insert(measurement)
  }

  /** Called with a measurement that goes for good. */
  removed: ((measurement: Measurement) => void) | undefined

  /** Forgets a dropped measurement for good. Its own tables are gone with it. @param file the log file being written. */
  remove(measurement: Measurement, file: number): void {
    this.removed?.(measurement)
    this.unname(measurement)
    this.pending.delete(measurement.id)
    this.countFields(measurement, -measurement.list.length)
    for (const table of measurement.tables) {
      if (table.measurement !== measurement.id) continue
      this.tables[table.id] = undefined
      this.goneTables.set(table.id, file)
    }
  }

  /** Names as they are when all is read back: on the way there, two measurements may have had one name. */
  reindex(): void {
    for (const measurement of this.byId) if (measurement !== undefined) this.insert(measurement)
  }

  private unname({ id, namespace, name }: Measurement): void {
    this.byId[id] = undefined
    this.removeName(namespace, name, id)
  }

  private removeName(namespace: string, name: string, id: number): void {
    const names = this.byName.get(namespace)
    if (names?.all.get(name)?.id !== id) return
    names.all.delete(name)
    names.shown.delete(name)
    if (names.all.size === 0) this.byName.delete(namespace)
  }

  /** Applies definitions read from the log. */
  apply(definitions: Definitions): void {
    for (const { id, namespace, name } of definitions.measurements ?? []) {
      this.nextMeasurement = Math.max(this.nextMeasurement, id + 1)
      if (this.any(id) !== undefined) continue
      const measurement = new Measurement(id, namespace, name)
      measurement.kept = true
      this.insert(measurement)
    }
    for (const { measurement, field } of definitions.fields ?? []) {
      const owner = this.any(measurement)
      const known = owner?.fields.get(field.name)
      if (owner === undefined || (known?.id === field.id && known.type === field.type && known.scale === field.scale)) continue
      // Earlier servers stored fields of writes that failed afterwards, and gave their names and numbers again: what the log says came later.
      if (known !== undefined || field.id <= (owner.list.at(-1)?.id ?? -1))
        for (const phantom of owner.list.filter(({ id, name }) => id === field.id || name === field.name)) this.removeField(owner, phantom)
      owner.add(field)
      this.countFields(owner, 1)
    }
    for (const { id, measurement } of definitions.tables ?? []) {
      this.goneTables.delete(id)
      this.restoreTable({ id, measurement, fields: [] })
    }
    for (const { table, field } of definitions.sharedFields ?? []) {
      const shared = this.tables[table]
      if (shared === undefined || shared.fields.length > 0) continue
      shared.fields.push(field)
      this.sharedTables.set(sharedKey(field), shared)
    }
    for (const { measurement, table } of definitions.homes ?? []) {
      const owner = this.any(measurement)
      const home = this.tables[table]
      if (owner === undefined || home === undefined || owner.tables.includes(home)) continue
      owner.home = home
      owner.tables = [...owner.tables, home]
      if (home.measurement >= 0) home.fields = owner.durableFields
    }
    this.confirm(definitions)
  }

  /** Puts back what the catalog stored; tables first. */
  restore(tables: readonly TableDef[], measurements: readonly MeasurementDef[]): void {
    for (const def of tables) {
      const table = this.restoreTable(def)
      table.durable = true
      if (def.measurement < 0) this.sharedTables.set(sharedKey(def.fields[0]), table)
    }
    for (const def of measurements) {
      const measurement = new Measurement(def.id, def.namespace, def.name)
      measurement.kept = true
      measurement.durable = true
      for (const field of def.fields) {
        measurement.add(field)
        measurement.settleField(field)
      }
      this.countFields(measurement, def.fields.length)
      // A table that is not there belongs to a write that was under way at the crash: the log defines it, or it never came to be.
      measurement.tables = def.tables.map((id) => this.tables[id]).filter((table) => table !== undefined)
      measurement.durableTables.push(...measurement.tables)
      measurement.home = measurement.tables.at(-1)
      if (measurement.home !== undefined && measurement.home.measurement >= 0) measurement.home.fields = measurement.durableFields
      this.insert(measurement)
      this.nextMeasurement = Math.max(this.nextMeasurement, def.id + 1)
    }
  }

  private countFields({ namespace }: Measurement, change: number): void {
    const count = (this.fieldCounts.get(namespace) ?? 0) + change
    if (count === 0) this.fieldCounts.delete(namespace)
    else this.fieldCounts.set(namespace, count)
    this.fields += change
  }

  private removeField(owner: Measurement, field: FieldDef): void {
    owner.remove(field)
    this.countFields(owner, -1)
  }

  private restoreTable(def: TableDef): Table {
    const known = this.tables[def.id]
    if (known !== undefined) return known
    const table = new Table(def.id, def.measurement, [...def.fields])
    this.tables[def.id] = table
    this.nextTable = Math.max(this.nextTable, def.id + 1)
    return table
  }

  private shared(field: FieldDef, definitions: Definitions, undo: Undo): Table {
    const known = this.sharedTables.get(sharedKey(field))
    if (known !== undefined) return known
    const table = this.newTable(-1, [{ ...field, id: 0, column: columnName(field.name, new Set(RESERVED_COLUMNS)) }], definitions, undo)
    this.sharedTables.set(sharedKey(field), table)
    ;(definitions.sharedFields ??= []).push({ table: table.id, field: table.fields[0] })
    undo.push(() => this.sharedTables.delete(sharedKey(field)))
    return table
  }

  private own(measurement: Measurement, definitions: Definitions, undo: Undo): Table {
    return this.newTable(measurement.id, measurement.durableFields, definitions, undo)
  }

  private newTable(measurement: number, fields: FieldDef[], definitions: Definitions, undo: Undo): Table {
    const table = new Table(this.nextTable++, measurement, fields)
    this.tables[table.id] = table
    ;(definitions.tables ??= []).push({ id: table.id, measurement })
    undo.push(() => {
      this.tables[table.id] = undefined
    })
    return table
  }

  private insert(measurement: Measurement): void {
    this.byId[measurement.id] = measurement
    let names = this.byName.get(measurement.namespace)
    if (names === undefined) {
      names = { all: new Map(), shown: new SortedKeys() }
      this.byName.set(measurement.namespace, names)
    }
    names.all.set(measurement.name, measurement)
    if (measurement.durable) names.shown.add(measurement.name)
    else names.shown.delete(measurement.name)
  }
}

/** @param tags its tag keys, ordered. */
export function describe(measurement: Measurement, tags: string[]): MeasurementInfo {
  const fields = measurement.durableFields.map(({ name, type, scale }): FieldInfo => (type === 'decimal' ? { name, type, scale } : { name, type }))
  return { name: measurement.name, tags, fields }
}

/** Columns that are no field's: the engine threads add them to segments and relations. */
const RESERVED_COLUMNS = ['_time', '_series', '_measurement', '_order']

/** A field's column in SQL and in segments: its name, made unique where only letter case tells two fields apart, or it is reserved. @param taken in lower case; the name is added. */
function columnName(name: string, taken: Set<string>): string {
  let column = name
  for (let n = 2; taken.has(column.toLowerCase()); n++) column = `${name}_${n}`
  taken.add(column.toLowerCase())
  return column
}

const sharedKey = (field: { name: string; type: FieldType; scale: number }): string => `${field.type}/${field.scale}/${field.name}`

export function tooManyFields(measurement: string, field: string, total: number, limit: number): SvcError {
  return new SvcError(
    'INVALID_POINT',
    `cannot add field "${field}" to measurement "${measurement}": it would have ${total} fields, max_fields_per_measurement is ${limit}; write under another measurement or raise the limit`,
  )
}
