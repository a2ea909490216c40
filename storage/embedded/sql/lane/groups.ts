/** Groups of rows: which group a series is of, and the numbers kept for each group and bucket. */

import { likeMatcher, likeSteps } from '../like.ts'
import { isDeviation } from './deviations.ts'
import { stepsOf } from './expressions.ts'
import type { LaneRows } from './host.ts'
import type { Conditions, GroupsPlan, KeyPlan } from './plan.ts'

/** Groups times buckets times what is kept or computed of each: more are left to DuckDB, which can spill. */
const MAX_CELLS = 1 << 22
/** Letters that patterns are compared with, all together: some 100 ms. */
const MAX_STEPS = 1 << 26
/** Dividing groups, in steps for each series. */
const DIVIDED_STEPS = 64
/** Looking for a text among others, in steps of a pattern. */
const LISTED_STEPS = 8
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

/** Undefined when there are more groups than the lane takes. */
export function groupingOf(plan: GroupsPlan, rows: LaneRows, [low, high]: readonly [number, number]): Grouping | undefined {
  const steps = { left: MAX_STEPS }
  const groupOf = seriesOf(plan, rows, steps)
  const taken = plan.conditions.map((each) => (each.tagFilters.length === 0 ? 'all' : seriesOf(each, rows, steps)))
  if (groupOf === undefined || taken.includes(undefined)) return undefined
  const found = plan.keys.map((key) => (key.kind === 'tag' ? rows.tag(key.tag) : undefined))
  let members: Int32Array = Int32Array.of(-1) // of each group a series
  let groups = 1
  for (const each of found) {
    if (each === undefined) continue
    const split = splitBy(groupOf, each.codes, each.texts.length, groups)
    members = split
    groups = split.length
  }
  const buckets = bucketsOf(plan.keys, low, high)
  if (buckets === undefined || groups * buckets.count * (numbersOf(plan) + 1) > MAX_CELLS) return undefined
  const tags = found.map((each) => (each === undefined ? undefined : { codes: members.map((series) => each.codes[series]), texts: each.texts }))
  const conditioned = taken.map((each) => (each instanceof Int32Array ? each.map((out, series) => (out < 0 ? out : groupOf[series])) : undefined))
  const finer: (FinerGroups | undefined)[] = []
  let more = 0
  for (const { tag, where } of plan.aggregates) {
    if (tag !== undefined && (steps.left -= groupOf.length * DIVIDED_STEPS) < 0) return undefined
    const of = tag === undefined ? undefined : finerGroups((where === undefined ? undefined : conditioned[where]) ?? groupOf, rows.tag(tag), groups)
    more += of?.parents.length ?? 0
    finer.push(of)
  }
  if ((groups * (numbersOf(plan) + 1) + more) * buckets.count > MAX_CELLS) return undefined
  return { groupOf, conditioned, finer, groups, tags, buckets }
}

function finerGroups(groups: Int32Array, { codes, texts }: ReturnType<LaneRows['tag']>, count: number): FinerGroups {
  const groupOf = groups.map((group, series) => (codes[series] < 0 ? -1 : group))
  const members = splitBy(groupOf, codes, texts.length, count)
  return { groupOf, parents: members.map((series) => groups[series]) }
}

/** Numbers that are kept of a group, or computed; what compares them takes half of that. */
function numbersOf({ aggregates, expressions, having, order }: GroupsPlan): number {
  const kept = aggregates.reduce((sum, { kind, zeros }) => sum + (isDeviation(kind) ? 3 : kind === 'first' || kind === 'last' || zeros ? 2 : 1), 0)
  return kept + expressions.reduce((sum, expression) => sum + stepsOf(expression), 0) + (having.length + order.length) / 2
}

/** Of each series 0, or -1 for one that is left out. Undefined where they would take long to look for, which DuckDB can be interrupted at. @param steps of all of a statement. */
export function seriesOf({ tagFilters }: Pick<Conditions, 'tagFilters'>, rows: LaneRows, steps = { left: MAX_STEPS }): Int32Array | undefined {
  const groupOf = new Int32Array(rows.series)
  for (const { tag, is, negated } of tagFilters) {
    const { codes, texts } = rows.tag(tag)
    steps.left -= 'like' in is ? texts.reduce((sum, { length }) => sum + length + 1, 0) * likeSteps(is.like) : (texts.length + groupOf.length) * LISTED_STEPS
    if (steps.left < 0) return undefined
    const matches = 'like' in is ? likeMatcher(is.like) : isOneOf(is.oneOf)
    const out = Uint8Array.from(texts, (text) => (matches(text) === negated ? 1 : 0))
    for (let i = 0; i < groupOf.length; i++) if (codes[i] < 0 || out[codes[i]] === 1) groupOf[i] = -1
  }
  return groupOf
}

function isOneOf(texts: readonly string[]): (text: string) => boolean {
  const set = new Set(texts)
  return (text) => set.has(text)
}

/** Divides the groups by one more tag. @returns of each group a series. */
function splitBy(groupOf: Int32Array, codes: Int32Array, size: number, groups: number): Int32Array {
  const width = size + 1
  const numbers = new Map<number, number>()
  const direct = groups * width <= 4 * groupOf.length + 1024 ? new Int32Array(groups * width).fill(-1) : undefined
  const members: number[] = []
  for (let i = 0; i < groupOf.length; i++) {
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
