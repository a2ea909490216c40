/** What a rollup computes: the names of aggregations, and the columns that come of a field (supplement B.8). */
import type { FieldInfo, FieldType } from 'svcdb'

type AggregationKind = 'avg' | 'min' | 'max' | 'sum' | 'count' | 'first' | 'last' | 'stddev' | 'quantile'

export interface Aggregation {
  kind: AggregationKind
  /** Of a quantile, 0 to 1. */
  q: number
  /** What follows the field's name and `_` in the target's column. */
  suffix: string
  /** As listings show it. */
  shown: string
}

/** A column of the target, and what of the source it comes from. */
export interface TargetColumn {
  name: string
  type: FieldType
  scale?: number
  field: FieldInfo
  aggregation: Aggregation
}

export const PLAIN = ['avg', 'min', 'max', 'sum', 'count', 'first', 'last', 'stddev'] as const
const QUANTILE = /^quantile\(\s*(0?\.\d{1,6}|0|1|1\.0+|0\.0+)\s*\)$/
const PERCENTILE = /^p(\d{1,2}(?:[._]\d{1,4})?|100)$/

/** Undefined for a name that is none. Case does not matter. */
export function parseAggregation(text: string): Aggregation | undefined {
  const name = text.trim().toLowerCase()
  if ((PLAIN as readonly string[]).includes(name)) return { kind: name as AggregationKind, q: 0, suffix: name, shown: name[0].toUpperCase() + name.slice(1) }
  const given = QUANTILE.exec(name)?.[1]
  const percent = PERCENTILE.exec(name)?.[1].replace('_', '.')
  if (given === undefined && percent === undefined) return undefined
  const millionths = Math.round(given === undefined ? Number(percent) * 1e4 : Number(given) * 1e6)
  return { kind: 'quantile', q: millionths / 1e6, suffix: `p${String(millionths / 1e4).replace('.', '_')}`, shown: `Quantile(${millionths / 1e6})` }
}

const EXACT: readonly FieldType[] = ['int64', 'uint64', 'decimal']

/** The columns of the target, in the order of the fields and of the aggregations; what an aggregation does not make of a type is left out. */
export function targetColumns(fields: readonly FieldInfo[], aggregations: readonly Aggregation[]): TargetColumn[] {
  return fields.flatMap((field) =>
    aggregations.flatMap((aggregation): TargetColumn[] => {
      const type = typeOf(field, aggregation.kind)
      if (type === undefined) return []
      const scale = type === 'decimal' ? { scale: field.scale ?? 0 } : {}
      return [{ name: `${field.name}_${aggregation.suffix}`, type, ...scale, field, aggregation }]
    }),
  )
}

function typeOf({ type }: FieldInfo, kind: AggregationKind): FieldType | undefined {
  if (kind === 'count') return 'int64'
  if (kind === 'first' || kind === 'last') return type
  if (type === 'string' || type === 'bool') return undefined
  if (type === 'histogram') return kind === 'sum' || kind === 'avg' ? 'histogram' : undefined
  if (kind === 'min' || kind === 'max') return type
  return kind === 'sum' && type === 'decimal' ? 'decimal' : 'float64'
}

export const isExact = (type: FieldType): boolean => EXACT.includes(type)
