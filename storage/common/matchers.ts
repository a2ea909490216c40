/** Tag conditions as predicates. */
import { compileRegex } from '../../kernel/regex.ts'
import type { Matcher } from '../../kernel/storage.ts'

export { compileRegex } from '../../kernel/regex.ts'

/** @throws BAD_REQUEST for a regular expression that does not parse. */
export function compileMatchers(matchers: readonly Matcher[]): (tag: (key: string) => string | undefined) => boolean {
  const tests = matchers.map((m) => ({ key: m.tag, test: compileOne(m) }))
  return (tag) => tests.every(({ key, test }) => test(tag(key) ?? ''))
}

export function compileOne(matcher: Matcher): (value: string) => boolean {
  const { op, value } = matcher
  if (op === '=') return (v) => v === value
  if (op === '!=') return (v) => v !== value
  const regex = compileRegex(value)
  return op === '=~' ? (v) => regex.test(v) : (v) => !regex.test(v)
}
