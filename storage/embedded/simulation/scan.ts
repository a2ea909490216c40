/** Reads everything of some namespaces in one snapshot, as the engine threads' scan does: the same parts, masked rows and merges. */
import type { FieldType } from 'svcdb'
import { sourcesOf } from '../read/relation.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Snapshot, WorkerState } from '../threads/state.ts'
import { arrivedRows, type Row, united, type Value, visible } from './rows.ts'

interface ScannedRow {
  tags: string
  series: number
  time: bigint
  fields: [name: string, value: Value][]
}

export interface Scanned {
  namespace: string
  name: string
  fields: [name: string, type: FieldType][]
  rows: ScannedRow[]
}

const ALL_TIME: [bigint, bigint] = [-(2n ** 63n), 2n ** 63n - 1n]

const tagsText = (tags: Record<string, string>): string =>
  Object.keys(tags)
    .sort()
    .map((key) => `${key}=${tags[key]}`)
    .join(',')

export async function scanAll(
  state: WorkerState,
  snapshot: Snapshot,
  namespaces: readonly { namespace: string }[],
  read: (segment: SegmentMeta) => Promise<Row[]>,
): Promise<Scanned[]> {
  const defs = namespaces.flatMap(({ namespace }) => state.measurementsOf(namespace))
  const plans = defs.map((def) => ({ def, sources: sourcesOf(state, snapshot, def, ALL_TIME, undefined), series: new Set(state.series.of(def.id)) }))
  const out: Scanned[] = []
  for (const { def, sources, series } of plans) {
    const parts = []
    for (const source of sources) {
      const all = source.segment === undefined ? arrivedRows(source.memtable!.part) : await read(source.segment)
      // Segments of a shared table say whose each row is, memtables tell it by the series.
      const isOwn = (row: Row): boolean => (source.segment === undefined ? series.has(row.series) : row.measurement === source.measurement)
      const own = source.measurement === undefined ? all : all.filter(isOwn)
      parts.push({ ...source, rows: visible(own, source.masks) })
    }
    const names = new Map(def.fields.map(({ id, name }) => [id, name]))
    const rows = united(parts, ALL_TIME).map(
      (row): ScannedRow => ({
        tags: tagsText(state.series.tags(row.series)),
        series: row.series,
        time: row.time,
        fields: [...row.fields].flatMap(([field, value]) => {
          const name = names.get(field)
          return name === undefined ? [] : [[name, value]]
        }),
      }),
    )
    out.push({ namespace: def.namespace, name: def.name, fields: def.fields.map(({ name, type }) => [name, type]), rows })
  }
  return out
}
