/**
 * The independent model that the engine is compared with: plain maps, and the operations in the order in which they were called. The engine's log has
 * the same order, so after a crash the database must be the sum of all acknowledged operations and of a beginning of those whose outcome nobody knows.
 */
import type { FieldType } from 'svcdb'
import type { Value } from './rows.ts'
import type { Scanned } from './scan.ts'

export interface Point {
  measurement: string
  tags: string
  time: bigint
  fields: { name: string; type: FieldType; value: Value }[]
}

export type Change =
  | { kind: 'write'; namespace: string; points: Point[] }
  | { kind: 'delete'; namespace: string; measurement: string; tags: (tags: string) => boolean; start: bigint; end: bigint }
  | { kind: 'drop'; namespace: string; measurement: string; final: boolean }
  | { kind: 'restore'; namespace: string; measurement: string }

/** `unknown`: answered with an error of unknown outcome, or not at all. */
export type Outcome = 'pending' | 'acknowledged' | 'refused' | 'unknown'

export interface Operation {
  /** In the order of the calls. */
  number: number
  change: Change
  outcome: Outcome
  /** A sync has made it durable; else a power cut may take it. */
  durable: boolean
  /** A reader of changes was given it, who is given nothing that may be lost. */
  delivered?: boolean
  /** First time that retention kept of a measurement while the operation's process ran. */
  cutoff: (measurement: string) => bigint
}

interface Cell {
  value: Value
  /** Retention may have taken it. */
  doomed: boolean
}

interface StoredRow {
  tags: string
  time: bigint
  cells: Map<string, Cell>
}

interface Instance {
  fields: Map<string, FieldType>
  rows: Map<string, StoredRow>
}

export interface State {
  live: ReadonlyMap<string, Instance>
  /** Dropped measurements that can be restored, newest last. */
  pending: readonly { key: string; instance: Instance }[]
}

export const EMPTY: State = { live: new Map(), pending: [] }

export const keyOf = (namespace: string, measurement: string): string => `${namespace}/${measurement}`
const nameOf = (key: string): string => key.slice(key.indexOf('/') + 1)

/** The state after an operation; the given one stays as it is. */
export function after(state: State, { change, cutoff }: Pick<Operation, 'change' | 'cutoff'>): State {
  switch (change.kind) {
    case 'write': {
      const live = new Map(state.live)
      const copied = new Map<string, Instance>()
      for (const point of change.points) {
        const key = keyOf(change.namespace, point.measurement)
        let instance = copied.get(key)
        if (instance === undefined) copied.set(key, (instance = copyOf(live.get(key))))
        live.set(key, instance)
        store(instance, point, point.time < cutoff(point.measurement))
      }
      return { ...state, live }
    }
    case 'delete': {
      const key = keyOf(change.namespace, change.measurement)
      const known = state.live.get(key)
      if (known === undefined) return state
      const rows = [...known.rows].filter(([, row]) => !(change.tags(row.tags) && row.time >= change.start && row.time < change.end))
      return { ...state, live: new Map(state.live).set(key, { ...known, rows: new Map(rows) }) }
    }
    case 'drop': {
      const key = keyOf(change.namespace, change.measurement)
      const instance = state.live.get(key)
      if (instance === undefined) return state
      const live = new Map(state.live)
      live.delete(key)
      return { live, pending: change.final ? state.pending : [...state.pending, { key, instance }] }
    }
    case 'restore': {
      const key = keyOf(change.namespace, change.measurement)
      const at = state.pending.findLastIndex((drop) => drop.key === key)
      if (at < 0) return state
      return { live: new Map(state.live).set(key, state.pending[at].instance), pending: state.pending.filter((_, i) => i !== at) }
    }
  }
}

function copyOf(instance: Instance | undefined): Instance {
  return instance === undefined ? { fields: new Map(), rows: new Map() } : { fields: new Map(instance.fields), rows: new Map(instance.rows) }
}

function store(instance: Instance, point: Point, doomed: boolean): void {
  const key = `${point.tags} ${point.time}`
  const known = instance.rows.get(key)
  const cells = new Map(known?.cells)
  for (const { name, type, value } of point.fields) {
    cells.set(name, { value, doomed })
    if (!instance.fields.has(name)) instance.fields.set(name, type)
  }
  instance.rows.set(key, { tags: point.tags, time: point.time, cells })
}

/** Retention has come by: what it may have taken is marked. */
export function doom(state: State, cutoff: (measurement: string) => bigint): State {
  const mark = (key: string, instance: Instance): Instance => {
    const limit = cutoff(nameOf(key))
    const isDoomed = (row: StoredRow): boolean => row.time < limit
    if (![...instance.rows.values()].some(isDoomed)) return instance
    const rows = [...instance.rows].map(([at, row]): [string, StoredRow] =>
      isDoomed(row) ? [at, { ...row, cells: new Map([...row.cells].map(([name, { value }]) => [name, { value, doomed: true }])) }] : [at, row],
    )
    return { ...instance, rows: new Map(rows) }
  }
  return {
    live: new Map([...state.live].map(([key, instance]) => [key, mark(key, instance)])),
    pending: state.pending.map(({ key, instance }) => ({ key, instance: mark(key, instance) })),
  }
}

/** Fields that operations name: the schema may know of them before, or without, their rows. */
function named(operations: readonly Operation[]): Set<string> {
  const names = new Set<string>()
  for (const { change } of operations) {
    if (change.kind !== 'write') continue
    for (const { measurement, fields } of change.points) for (const { name } of fields) names.add(`${keyOf(change.namespace, measurement)} ${name}`)
  }
  return names
}

/** What is wrong with what was read, if the state is the true one. @param open fields that may be known. */
function difference(state: State, scanned: readonly Scanned[], open: ReadonlySet<string>): string | undefined {
  const fields = new Map(scanned.map((one) => [keyOf(one.namespace, one.name), new Map(one.fields)]))
  for (const [key, instance] of state.live) {
    const listed = fields.get(key)
    if (listed === undefined) return `measurement ${key} is missing`
    for (const [name, type] of instance.fields) if (listed.get(name) !== type) return `field ${name} of ${key} is ${listed.get(name) ?? 'missing'}, not ${type}`
    for (const name of listed.keys()) if (!instance.fields.has(name) && !open.has(`${key} ${name}`)) return `field ${name} of ${key} is too many`
  }
  for (const [key, listed] of fields)
    if (!state.live.has(key) && [...listed.keys()].some((name) => !open.has(`${key} ${name}`))) return `measurement ${key} is too many`
  for (const { namespace, name, rows } of scanned) {
    const key = keyOf(namespace, name)
    const instance = state.live.get(key)
    if (instance === undefined) {
      if (rows.length > 0) return `rows of ${key} are read, which is not there`
      continue
    }
    const seen = new Set<string>()
    for (const row of rows) {
      const at = `${row.tags} ${row.time}`
      const known = instance.rows.get(at)
      if (seen.has(at)) return `row ${key} ${at} is there twice`
      seen.add(at)
      if (known === undefined) return `row ${key} ${at} ${shown(row.fields)} is too many`
      for (const [field, value] of row.fields) {
        const cell = known.cells.get(field)
        if (cell === undefined) return `value ${field}=${value} of ${key} ${at} is too many`
        if (cell.value !== value) return `value ${field}=${value} of ${key} ${at} is wrong, it was ${cell.value}`
      }
      const given = new Set(row.fields.map(([field]) => field))
      for (const [field, { value, doomed }] of known.cells) if (!doomed && !given.has(field)) return `value ${field}=${value} of ${key} ${at} is missing`
    }
    for (const [at, row] of instance.rows) if (!seen.has(at) && hasKept(row)) return `row ${key} ${at} ${shownCells(row)} is missing`
  }
  for (const [key, instance] of state.live) {
    if (!scanned.some(({ namespace, name }) => keyOf(namespace, name) === key))
      for (const [at, row] of instance.rows) if (hasKept(row)) return `row ${key} ${at} is missing with its measurement`
  }
  return undefined
}

const hasKept = ({ cells }: StoredRow): boolean => [...cells.values()].some(({ doomed }) => !doomed)
const shown = (fields: readonly [string, Value][]): string => fields.map(([name, value]) => `${name}=${value}`).join(' ')
const shownCells = ({ cells }: StoredRow): string => shown([...cells].map(([name, { value }]) => [name, value]))

/**
 * The state that was read: the sum of the base, all operations that must be in, and a beginning of the others.
 * @param all those that were refused too: they are left out.
 * Several may look alike, such as one before a measurement was made and dropped and one after: the last is the one in which the drop can be undone.
 * @param required number of operations that must be in.
 */
export function settled(base: State, all: readonly Operation[], required: number, observed: readonly Scanned[]): { state: State; count: number } | string {
  let state = base
  let last: { state: State; count: number } | undefined
  const problems: string[] = []
  const open = named(all)
  const operations = all.filter(({ outcome }) => outcome !== 'refused')
  for (let count = 0; count <= operations.length; count++) {
    if (count > 0) state = after(state, operations[count - 1])
    if (count < required) continue
    const found = difference(state, observed, open)
    if (found === undefined) last = { state: withFields(state, observed), count }
    else problems.push(`with ${count}: ${found}`)
  }
  if (last !== undefined) return last
  return `it is not the sum of ${required} to ${operations.length} operations; ${problems.slice(0, 6).join('; ')}`
}

/**
 * What is wrong with a copy that was made while operations went on: what was there before and stayed must be in it, and nothing that never was. An
 * operation of the meantime may be in it or not.
 * @param states before the copy began, and after each operation since.
 */
export function copyProblem(states: readonly State[], observed: readonly Scanned[]): string | undefined {
  const [first] = states
  const read = new Map<string, Map<string, Map<string, Value>>>()
  for (const { namespace, name, rows } of observed) {
    const key = keyOf(namespace, name)
    const found = new Map<string, Map<string, Value>>()
    read.set(key, found)
    for (const { tags, time, fields } of rows) {
      const at = `${tags} ${time}`
      if (found.has(at)) return `row ${key} ${at} is there twice`
      found.set(at, new Map(fields))
      for (const [field, value] of fields)
        if (!states.some(({ live }) => live.get(key)?.rows.get(at)?.cells.get(field)?.value === value))
          return `value ${field}=${value} of ${key} ${at} never was`
    }
  }
  for (const [key, { rows }] of first.live)
    for (const [at, { cells }] of rows)
      for (const [field, { value, doomed }] of cells) {
        const stays = states.every(({ live }) => live.get(key)?.rows.get(at)?.cells.get(field)?.value === value)
        if (stays && !doomed && read.get(key)?.get(at)?.get(field) !== value) return `value ${field}=${value} of ${key} ${at} is missing`
      }
  return undefined
}

/** With the fields that were read: those of operations that came to nothing may stay. */
function withFields(state: State, observed: readonly Scanned[]): State {
  const live = new Map(state.live)
  for (const { namespace, name, fields } of observed) {
    const key = keyOf(namespace, name)
    const instance = live.get(key) ?? { fields: new Map(), rows: new Map() }
    if (fields.some(([field]) => !instance.fields.has(field))) live.set(key, { ...instance, fields: new Map(fields) })
  }
  return { ...state, live }
}
