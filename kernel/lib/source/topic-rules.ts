/** What a topic says of the points of its messages: their measurement, and tags. Topics have levels between slashes, as those of MQTT, or another separator. */
import { RecentMap } from '../cache/index.ts'

/** What topics mean. */
export interface TopicRulesOptions {
  /** Topic to measurement; a topic may have the wildcards `+` and `#`. */
  measurements: Readonly<Record<string, string>>
  /** Patterns such as `site/+line/+machine`: a level is a text, `+` (any), `+name` (any, and a tag of that name) or, at the end, `#` (the rest). The first that fits counts. */
  tags: readonly string[]
  /** The measurement of topics that nothing is said of: the last level, or the whole topic. */
  fallback: 'last level' | 'topic'
  /** Between levels; default a slash. */
  separator?: '/' | '.'
}

/** What one topic says of the points of its messages. */
export interface TopicMeaning {
  measurement: string
  /** key, value, key, value. */
  tags: readonly string[]
}

interface Pattern {
  levels: readonly string[]
  measurement?: string
}

/** Characters of topics whose meaning is kept: they are the writers', who may make up any number and length. */
const MAX_KEPT = 1_000_000

/** What each topic means, worked out once and kept for those used last. */
export class TopicRules {
  private readonly exact = new Map<string, string>()
  private readonly wild: Pattern[] = []
  private readonly tags: Pattern[]
  private readonly fallback: TopicRulesOptions['fallback']
  private readonly separator: string
  private readonly kept = new RecentMap<string, TopicMeaning>(MAX_KEPT, (_, topic) => topic.length)

  /** @throws Error for a pattern that is none. */
  constructor({ measurements, tags, fallback, separator = '/' }: TopicRulesOptions) {
    this.fallback = fallback
    this.separator = separator
    for (const [topic, measurement] of Object.entries(measurements)) {
      if (!/[+#]/.test(topic)) this.exact.set(topic, measurement)
      else this.wild.push({ levels: levelsOf(topic, separator, false), measurement })
    }
    this.tags = tags.map((pattern) => ({ levels: levelsOf(pattern, separator, true) }))
  }

  of(topic: string): TopicMeaning {
    let meaning = this.kept.get(topic)
    if (meaning === undefined) {
      meaning = this.read(topic)
      this.kept.set(topic, meaning)
    }
    return meaning
  }

  private read(topic: string): TopicMeaning {
    const levels = topic.split(this.separator)
    const measurement =
      this.exact.get(topic) ??
      this.wild.find((pattern) => fits(pattern.levels, levels))?.measurement ??
      (this.fallback === 'topic' ? topic : levels[levels.length - 1])
    const pattern = this.tags.find((each) => fits(each.levels, levels))
    const tags = (pattern?.levels ?? []).flatMap((level, i) => (level.length > 1 && level[0] === '+' && levels[i] !== '' ? [level.slice(1), levels[i]] : []))
    return { measurement, tags }
  }
}

function fits(pattern: readonly string[], levels: readonly string[]): boolean {
  for (const [i, level] of pattern.entries()) {
    if (level === '#') return true
    if (i >= levels.length || (level[0] !== '+' && level !== levels[i])) return false
  }
  return pattern.length === levels.length
}

function levelsOf(pattern: string, separator: string, named: boolean): string[] {
  const levels = pattern.split(separator)
  const seen = new Set<string>()
  for (const [i, level] of levels.entries()) {
    const name = level[0] === '+' ? level.slice(1) : ''
    const wrong =
      level.includes('#') && (level !== '#' || i < levels.length - 1)
        ? '"#" is a level of its own, and the last one'
        : level.lastIndexOf('+') > 0 || (name !== '' && !named)
          ? '"+" stands at the beginning of a level'
          : seen.has(name)
            ? `two levels are tag "${name}"`
            : undefined
    if (wrong !== undefined) throw new Error(`cannot use topic pattern "${pattern.slice(0, 256)}": ${wrong}`)
    if (name !== '') seen.add(name)
  }
  return levels
}
