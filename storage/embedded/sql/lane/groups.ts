/** Groups of rows: which group a series is of, and the numbers kept for each group and bucket. */

import type { Turn } from 'svcdb/lib/event-loop'
import { isDeviation } from './deviations.ts'
import { stepsOf } from './expressions.ts'
import type { LaneRows } from './host.ts'
import type { GroupsPlan, KeyPlan } from './plan.ts'
import { TagConditions } from './tag-conditions.ts'

/** Groups times buckets times what is kept or computed of each: more are left to DuckDB, which can spill. */
const MAX_CELLS = 1 << 22
/** Dividing groups by a tag, in steps for each series. */
const DIVIDED_STEPS = 16
/** Dividing each again for the values that are counted of a tag, whose numbers are looked up. */
const FINER_STEPS = 64
/** No time has an earlier millisecond: a bucket that begins before is DuckDB's to refuse. */
const FIRST_MS = -9_223_372_036_854

export interface GroupTag {
  /** Of each group the number of its value, negative for none. */
  codes: Int32Array
  texts: readonly string[]
}

export interface Buckets {
  step: number
  /** Start of the first, milliseconds. */
  first: number
  count: number
}

/** Groups divided by the values of a tag; series without it, or that are left out, have none. */
export interface FinerGroups {
  groupOf: Int32Array
  /** Of each the group that it is a part of. */
  parents: Int32Array
}

export interface Grouping {
  /** Of each series, by position; -1: left out. */
  groupOf: Int32Array
  /** The same under each of the plan's conditions that has some on tags. */
  conditioned: readonly (Int32Array | undefined)[]
  /** By the number of the aggregate; undefined for those that count no values of a tag. */
  finer: readonly (FinerGroups | undefined)[]
  groups: number
  /** By the number of the key; undefined for the bucket. */
  tags: readonly (GroupTag | undefined)[]
  buckets: Buckets
}

/** Undefined when there are more groups than the lane takes, or series would take long to look for. */
export async function groupingOf(plan: GroupsPlan, rows: LaneRows, [low, high]: readonly [number, number], turn: Turn): Promise<Grouping | undefined> {
  const tagged = new TagConditions(rows, turn)
  const groupOf = await tagged.seriesOf(plan)
  if (groupOf === undefined) return undefined
  const found = plan.keys.map((key) => (key.kind === 'tag' ? tagged.column(key.tag) : undefined))
  let members: Int32Array = Int32Array.of(-1) // of each group a series
  let groups = 1
  for (const each of found) {
    if (each === undefined) continue
    members = await splitBy(tagged, groupOf, each, groups, DIVIDED_STEPS)
    groups = members.length
  }
  const buckets = bucketsOf(plan.keys, low, high)
  if (buckets === undefined || groups * buckets.count * (numbersOf(plan) + 1) > MAX_CELLS) return undefined
  const tags = found.map((each) => (each === undefined ? undefined : { codes: members.map((series) => each.codes[series]), texts: each.texts }))
  const conditioned: (Int32Array | undefined)[] = []
  for (const conditions of plan.conditions) {
    const taken = conditions.tagFilters.length === 0 ? 'all' : await tagged.seriesOf(conditions)
    if (taken === undefined) return undefined
    if (taken !== 'all') for (let i = 0; i < taken.length; i++) if (taken[i] === 0) taken[i] = groupOf[i]
    conditioned.push(taken === 'all' ? undefined : taken)
  }
  const finer: (FinerGroups | undefined)[] = []
  let more = 0
  for (const { tag, where } of plan.aggregates) {
    if (tag !== undefined && !tagged.takes(groupOf.length * FINER_STEPS)) return undefined
    const of = tag === undefined ? undefined : await finerGroups(tagged, (where === undefined ? undefined : conditioned[where]) ?? groupOf, tag, groups)
    more += of?.parents.length ?? 0
    finer.push(of)
  }
  if ((groups * (numbersOf(plan) + 1) + more) * buckets.count > MAX_CELLS) return undefined
  return { groupOf, conditioned, finer, groups, tags, buckets }
}

async function finerGroups(tagged: TagConditions, groups: Int32Array, tag: string, count: number): Promise<FinerGroups> {
  const column = tagged.column(tag)
  const groupOf = groups.slice()
  for (let i = 0; i < groupOf.length; i++) if (column.codes[i] < 0) groupOf[i] = -1
  const members = await splitBy(tagged, groupOf, column, count, FINER_STEPS)
  return { groupOf, parents: members.map((series) => groups[series]) }
}

/** Numbers that are kept of a group, or computed; what compares them takes half of that. */
function numbersOf({ aggregates, expressions, having, order }: GroupsPlan): number {
  const kept = aggregates.reduce((sum, { kind, zeros }) => sum + (isDeviation(kind) ? 3 : kind === 'first' || kind === 'last' || zeros ? 2 : 1), 0)
  return kept + expressions.reduce((sum, expression) => sum + stepsOf(expression), 0) + (having.length + order.length) / 2
}

/** Divides the groups by one more tag. @param steps for each series. @returns of each group a series. */
async function splitBy(
  tagged: TagConditions,
  groupOf: Int32Array,
  { codes, texts }: ReturnType<LaneRows['tag']>,
  groups: number,
  steps: number,
): Promise<Int32Array> {
  const width = texts.length + 1
  const numbers = new Map<number, number>()
  const direct = groups * width <= 4 * groupOf.length + 1024 ? new Int32Array(groups * width).fill(-1) : undefined
  const members: number[] = []
  await tagged.each(groupOf.length, steps, (from, to) => {
    for (let i = from; i < to; i++) {
      if (groupOf[i] < 0) continue
      const pair = groupOf[i] * width + Math.max(-1, codes[i]) + 1
      let group = direct === undefined ? (numbers.get(pair) ?? -1) : direct[pair]
      if (group < 0) {
        group = members.push(i) - 1
        if (direct === undefined) numbers.set(pair, group)
        else direct[pair] = group
      }
      groupOf[i] = group
    }
  })
  return Int32Array.from(members)
}

function bucketsOf(keys: readonly KeyPlan[], low: number, high: number): Buckets | undefined {
  const key = keys.find(({ kind }) => kind === 'bucket')
  if (key?.kind !== 'bucket') return { step: Number.POSITIVE_INFINITY, first: Number.NEGATIVE_INFINITY, count: 1 }
  const { step, anchor } = key
  const first = Math.floor((low - anchor) / step) * step + anchor
  const count = Math.floor((high - first) / step) + 1
  return count <= MAX_CELLS && first >= FIRST_MS ? { step, first, count } : undefined
}
