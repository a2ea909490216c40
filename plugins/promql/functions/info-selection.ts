/** Which info series info() reads. */

import { TextPattern } from 'svcdb/lib/regex'
import type { LabelMatcher } from '../ast.ts'
import { type Labels, METRIC_NAME } from '../labels.ts'

/** The labels an info series shares with the series it tells about. */
export const IDENTIFYING = ['instance', 'job'] as const
const TARGET_INFO: LabelMatcher = { name: METRIC_NAME, op: '=', value: 'target_info' }
const ANY_INFO: LabelMatcher = { name: METRIC_NAME, op: '=~', value: '.+_info' }
/** Patterns are limited in length: more values are read in more selections. */
const PATTERN_LENGTH = 8192

export interface InfoSelector {
  names: readonly LabelMatcher[]
  /** Matchers on the labels to be added. */
  data: readonly LabelMatcher[]
}

/** @param matchers of the second argument; undefined when there is none. */
export function infoSelector(matchers: readonly LabelMatcher[] | undefined): InfoSelector {
  const names = (matchers ?? []).filter(({ name }) => name === METRIC_NAME)
  const data = (matchers ?? []).filter(({ name }) => name !== METRIC_NAME)
  if (names.length === 0) return { names: [TARGET_INFO], data }
  const positive = names.some(({ op }) => op === '=' || op === '=~')
  return { names: positive ? names : [ANY_INFO, ...names], data }
}

/** For many texts of which most are the same. @throws BAD_REQUEST for a regular expression that takes too long. */
export function textTest(matchers: readonly LabelMatcher[]): (text: string) => boolean {
  const tests = matchers.map(matcherTest)
  const known = new Map<string, boolean>()
  return (text) => {
    let answer = known.get(text)
    if (answer === undefined) known.set(text, (answer = tests.every((test) => test(text))))
    return answer
  }
}

function matcherTest({ op, value }: LabelMatcher): (text: string) => boolean {
  if (op === '=') return (text) => text === value
  if (op === '!=') return (text) => text !== value
  const pattern = new TextPattern(value)
  return (text) => pattern.test(text) === (op === '=~')
}

/** Matchers of the info series that can belong to any of these series: one list for each pattern of labels that are there and that are not. */
export function identifyingMatchers(series: Iterable<Labels>): LabelMatcher[][] {
  const groups = new Map<string, Set<string>[]>()
  for (const labels of series) {
    const values = IDENTIFYING.map((name) => labels.get(name))
    const presence = values.map((value) => (value === '' ? '0' : '1')).join('')
    if (!presence.includes('1')) continue
    let group = groups.get(presence)
    if (group === undefined) groups.set(presence, (group = IDENTIFYING.map(() => new Set<string>())))
    for (const [i, value] of values.entries()) group[i].add(value)
  }
  const out: LabelMatcher[][] = []
  for (const group of groups.values()) {
    let lists: LabelMatcher[][] = [[]]
    for (const [i, values] of group.entries()) {
      const choices = matchersFor(IDENTIFYING[i], values)
      lists = lists.flatMap((list) => choices.map((choice) => [...list, choice]))
    }
    out.push(...lists)
  }
  return out
}

/** Matchers of which exactly one holds for each of the values. */
function matchersFor(name: string, values: ReadonlySet<string>): LabelMatcher[] {
  if (values.size === 1) return [{ name, op: '=', value: [...values][0] }]
  const out: LabelMatcher[] = []
  let pattern = ''
  for (const value of [...values].sort()) {
    const literal = value.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&')
    if (pattern !== '' && pattern.length + literal.length >= PATTERN_LENGTH) {
      out.push({ name, op: '=~', value: pattern })
      pattern = ''
    }
    pattern += pattern === '' ? literal : `|${literal}`
  }
  out.push({ name, op: '=~', value: pattern })
  return out
}
