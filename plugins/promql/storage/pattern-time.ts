/** Regular expressions on one label of a selector, which together have the time of one: nothing else runs on their thread meanwhile, nor is a time limit looked at. */
import { SvcError } from 'svcdb/lib/errors'
import { REGEX_TIMEOUT_MS } from 'svcdb/lib/regex'

export class PatternTime {
  private readonly label: string
  private readonly patterns: number
  private leftMs = REGEX_TIMEOUT_MS

  /** @param patterns on the label, for the error. */
  constructor(label: string, patterns: number) {
    this.label = label
    this.patterns = patterns
  }

  /** Runs what looks at one of them. @throws BAD_REQUEST when those before have taken it all. */
  spend<T>(run: () => T): T {
    if (this.leftMs <= 0) throw tooMany(this.label, this.patterns)
    const start = performance.now()
    const result = run()
    this.leftMs -= performance.now() - start
    return result
  }
}

function tooMany(label: string, patterns: number): SvcError {
  return new SvcError(
    'BAD_REQUEST',
    `cannot evaluate ${patterns} regular expressions on "${label}": together they take too long; write one in place of several`,
  )
}
