/** Which measurements a sink takes: names, in which `*` stands for any characters and `?` for one. */

export function measurementFilter(patterns: readonly string[]): (measurement: string) => boolean {
  if (patterns.length === 0) return () => true
  const names = new Set(patterns.filter((pattern) => !/[*?]/.test(pattern)))
  const globs = patterns.filter((pattern) => /[*?]/.test(pattern))
  return (measurement) => names.has(measurement) || globs.some((glob) => matches(glob, measurement))
}

/** Goes back to the last star only, which is enough: no more than pattern times text. */
function matches(glob: string, text: string): boolean {
  let g = 0
  let at = 0
  let star = -1
  let mark = 0
  while (at < text.length) {
    if (glob[g] === '*') {
      star = g++
      mark = at
    } else if (g < glob.length && (glob[g] === '?' || glob[g] === text[at])) {
      g++
      at++
    } else if (star >= 0) {
      g = star + 1
      at = ++mark
    } else return false
  }
  while (glob[g] === '*') g++
  return g === glob.length
}
