/** RE2-like regular expressions, fully anchored, bounded in time. */
export { compileRegex } from './regex.ts'
export { REGEX_TIMEOUT_MS, TextPattern, withinTime } from './text-pattern.ts'
