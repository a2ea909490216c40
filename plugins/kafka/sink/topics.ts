/**
 * Names of topics out of namespaces and measurements.
 *
 * Invariants
 * - Two measurements never share a topic of a template, also in the eyes of a broker, which takes "." and "_" in names for the same.
 * - A name is one that Kafka allows, and none of its own (`__consumer_offsets`).
 */
import { createHash } from 'node:crypto'

const MAX_LENGTH = 249
const HASH_CHARACTERS = 16
const KEPT = 10_000
const PLACEHOLDER = /\{(namespace|measurement)\}/g
const LITERAL = /^[A-Za-z0-9._-]*$/
const encoder = new TextEncoder()

/** No measurement is written like these: behind a "-" there are two digits of one. */
const GAP = '-gap'

export class TopicNames {
  private readonly template: string
  private readonly last: string
  private readonly namespace: string
  private readonly kept = new Map<string, string>()

  /** @param template with or without placeholders. @throws Error for one that is none. */
  constructor(template: string, namespace: string) {
    checkTemplate(template)
    this.template = template
    this.last = [...template.matchAll(PLACEHOLDER)].at(-1)?.[1] ?? ''
    this.namespace = this.written('namespace', namespace)
  }

  of(measurement: string): string {
    let topic = this.kept.get(measurement)
    if (topic === undefined) {
      if (this.kept.size >= KEPT) this.kept.clear()
      topic = this.filled(this.written('measurement', measurement))
      this.kept.set(measurement, topic)
    }
    return topic
  }

  /** Where gaps are told, which are of no measurement. */
  get ofGaps(): string {
    return this.filled(GAP)
  }

  /** Whether it could be the topic of a measurement. */
  canBe(topic: string): boolean {
    const pattern = this.template
      .split(PLACEHOLDER)
      .map((part, i) => (i % 2 === 0 ? part.replace(/[.-]/g, '\\$&') : '[A-Za-z0-9._-]+'))
      .join('')
    return new RegExp(`^${pattern}$`).test(topic)
  }

  /** All but the last placeholder have neither "." nor "_" in them, so that it is seen where they end. */
  private written(name: string, text: string): string {
    return escaped(text, name !== this.last)
  }

  private filled(measurement: string): string {
    let topic = this.template.replace(PLACEHOLDER, (_, name: string) => (name === 'namespace' ? this.namespace : measurement))
    if (topic.startsWith('__') && !this.template.startsWith('__')) topic = `-5f${topic.slice(1)}`
    if (topic.length <= MAX_LENGTH) return topic
    const hash = createHash('sha256').update(topic).digest('hex').slice(0, HASH_CHARACTERS)
    return `${topic.slice(0, MAX_LENGTH - HASH_CHARACTERS - 2)}-x${hash}`
  }
}

/** Letters, digits and "_" stand for themselves, all else is "-" and two hexadecimal digits a byte of UTF-8. */
function escaped(text: string, underscores: boolean): string {
  return text.replace(underscores ? /[^A-Za-z0-9]/gu : /[^A-Za-z0-9_]/gu, (character) =>
    [...encoder.encode(character)].map((byte) => `-${byte.toString(16).padStart(2, '0')}`).join(''),
  )
}

function checkTemplate(template: string): void {
  const parts = template.split(PLACEHOLDER)
  const literals = parts.filter((_, i) => i % 2 === 0)
  if (!literals.every((part) => LITERAL.test(part)))
    throw new Error(`topic "${template}" has characters that topics cannot have; use letters, digits, ".", "_" and "-", {namespace} and {measurement}`)
  const names = parts.filter((_, i) => i % 2 === 1)
  if (new Set(names).size < names.length) throw new Error(`topic "${template}" has a placeholder twice`)
  if (names.length === 2 && !/[._]/.test(literals[1])) throw new Error(`topic "${template}" needs a "." between its placeholders`)
  if (names.length === 0 && (template === '' || template === '.' || template === '..' || template.length > MAX_LENGTH))
    throw new Error(`topic "${template}" is no name that Kafka allows: 1 to ${MAX_LENGTH} characters`)
}
