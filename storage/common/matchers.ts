/** Tag conditions as predicates. */
import type { Matcher } from 'svcdb'
import { TextPattern } from 'svcdb/lib/regex'

/** A condition on a tag's value. */
export interface Condition {
  /** @throws BAD_REQUEST when its regular expression takes too long, as `flags` does. */
  test(value: string): boolean
  /** For many values at once, each of which should be there once: a byte a value, 1 = it holds. */
  flags(values: readonly string[]): Uint8Array
  /** All values for which it holds, when they are known. */
  readonly literals?: ReadonlySet<string> | undefined
}

/** @param timeoutMs what one regular expression may take. @throws BAD_REQUEST for one that does not parse. */
export function compileMatchers(matchers: readonly Matcher[], timeoutMs?: number): (tag: (key: string) => string | undefined) => boolean {
  const conditions = matchers.map((m) => ({ key: m.tag, condition: compileOne(m, timeoutMs) }))
  return (tag) => conditions.every(({ key, condition }) => condition.test(tag(key) ?? ''))
}

/** As `compileMatchers`, for one. */
export function compileOne({ op, value }: Pick<Matcher, 'op' | 'value'>, timeoutMs?: number): Condition {
  if (op === '=' || op === '!=') {
    const test = (text: string): boolean => (text === value) === (op === '=')
    return { test, flags: (values) => Uint8Array.from(values, (text) => (test(text) ? 1 : 0)), literals: op === '=' ? new Set([value]) : undefined }
  }
  const pattern = new TextPattern(value, timeoutMs)
  if (op === '=~') return pattern
  return { test: (v) => !pattern.test(v), flags: (values) => pattern.flags(values).map((flag) => 1 - flag) }
}
