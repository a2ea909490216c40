/**
 * Who calls: the tokens of the tokens file, and whom they stand for. Only hashes are kept. Pure: the file's text comes from outside, and so does the time.
 *
 * A token that is presented is compared with each entry, all of them each time and each in constant time: how long it takes says nothing about how close it was.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { LineCounter, parseDocument } from 'yaml'

/** Whom a token stands for. */
export interface Caller {
  actor: string
  roles: readonly string[]
  tenant: string
  /** Patterns of capabilities, such as `support.*`; absent = not narrowed. */
  scope?: readonly string[]
  /** Milliseconds since the Unix epoch at which the token ends. */
  notAfter?: number
  /** People on whose behalf it acts: they count for the four-eyes rule. */
  acting_as?: readonly string[]
}

interface Entry {
  hash: Buffer
  caller: Caller
}

const DEFAULT_TENANT = 'default'
const MIN_BYTES = 32
/** Of the header that carries it. */
const MAX_BYTES = 4096
const MAX_ENTRIES = 10_000
const MAX_ACTOR = 256
const MAX_TENANT = 64
const MAX_NAMES = 100
const MAX_NAME = 128
/** Tokens of the documentation: whoever copies one has a token that the world knows. */
const PUBLISHED: ReadonlySet<string> = new Set([
  'example-token-do-not-use-0123456789',
  'replace-me-with-32-random-bytes-or-more',
  'an-operator-token-of-32-bytes-or-more',
])
const MEMBERS = ['token', 'actor', 'roles', 'tenant', 'scope', 'not_after']
const INSTANT = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/
const PATTERN = /^[a-z0-9_]+(?:\.[a-z0-9_]+)*(?:\.\*)?$|^\*$/
const CONTROL = /[\p{Cc}\p{Surrogate}]/u

export class Tokens {
  private readonly entries: readonly Entry[]

  private constructor(entries: readonly Entry[]) {
    this.entries = entries
  }

  /** @param text YAML, which JSON is too. @throws Error naming the entry, never what is in it that could be a token. */
  static read(text: string): Tokens {
    const lines = new LineCounter()
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
    const [error] = document.errors
    // Its message may quote the text.
    if (error !== undefined) throw new Error(`line ${lines.linePos(error.pos[0]).line} cannot be read: ${error.code.toLowerCase().replaceAll('_', ' ')}`)
    const list = document.toJS({ maxAliasCount: 0 }) as unknown
    if (!Array.isArray(list)) throw new Error('it is no list; write a list of entries with token and actor')
    if (list.length === 0) throw new Error('it has no entries, so that nobody could call; name at least one token')
    if (list.length > MAX_ENTRIES) throw new Error(`it has ${list.length} entries, and ${MAX_ENTRIES} is the limit`)
    const entries = list.map((entry, index) => entryOf(entry, `entry ${index + 1}`))
    const seen = new Map<string, number>()
    for (const [index, entry] of entries.entries()) {
      const known = seen.get(entry.hash.toString('hex'))
      if (known !== undefined) throw new Error(`entry ${index + 1} has the token of entry ${known + 1}; a token stands for one actor`)
      seen.set(entry.hash.toString('hex'), index)
    }
    return new Tokens(entries)
  }

  get count(): number {
    return this.entries.length
  }

  get tenants(): ReadonlySet<string> {
    return new Set(this.entries.map(({ caller }) => caller.tenant))
  }

  /** @param now milliseconds since the Unix epoch. @returns undefined for a token that stands for nobody, or nobody any more. */
  callerOf(token: string, now: number): Caller | undefined {
    const presented = hashOf(token)
    let found = -1
    for (const [index, entry] of this.entries.entries()) found = timingSafeEqual(entry.hash, presented) ? index : found
    const entry = this.entries[found]
    const { notAfter = Number.POSITIVE_INFINITY } = entry?.caller ?? {}
    return now > notAfter ? undefined : entry?.caller
  }
}

function hashOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

function entryOf(given: unknown, place: string): Entry {
  const refuse = (why: string) => new Error(`${place}: ${why}`)
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw refuse(`it is no entry; it has the members ${MEMBERS.join(', ')}`)
  const unknown = Object.keys(given).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined)
    throw refuse(`it has the unknown member ${JSON.stringify(/^\w{1,24}$/.test(unknown) ? unknown : '...')}; the members are ${MEMBERS.join(', ')}`)
  const { token, actor, roles = [], tenant = DEFAULT_TENANT, scope, not_after: notAfter } = given as Record<string, unknown>
  checkToken(token, refuse)
  if (!isName(actor, MAX_ACTOR)) throw refuse(`actor is a name of 1 to ${MAX_ACTOR} characters`)
  if (!isNames(roles, (role) => isName(role, MAX_NAME))) throw refuse(`roles is a list of up to ${MAX_NAMES} names of 1 to ${MAX_NAME} characters`)
  if (!isName(tenant, MAX_TENANT)) throw refuse(`tenant is a name of 1 to ${MAX_TENANT} characters`)
  if (scope !== undefined && (!isNames(scope, (one) => PATTERN.test(one)) || scope.length === 0))
    throw refuse('scope is a list of capabilities such as "support.refund" or "support.*", and not an empty one; leave it out where there is no limit')
  const ends = notAfter === undefined ? undefined : instantOf(notAfter)
  if (notAfter !== undefined && ends === undefined) throw refuse('not_after is an RFC 3339 time such as "2027-01-31T00:00:00Z"')
  const bounds = { ...(scope === undefined ? {} : { scope }), ...(ends === undefined ? {} : { notAfter: ends }) }
  return { hash: hashOf(token), caller: Object.freeze({ actor, roles: Object.freeze([...new Set(roles)]), tenant, ...bounds }) }
}

function checkToken(token: unknown, refuse: (why: string) => Error): asserts token is string {
  if (typeof token !== 'string') throw refuse('token is a text; put it in quotation marks')
  if (token.trim() === '') throw refuse('token is blank')
  const bytes = Buffer.byteLength(token)
  if (bytes < MIN_BYTES || bytes > MAX_BYTES)
    throw refuse(`token has ${bytes} bytes, and ${MIN_BYTES} to ${MAX_BYTES} are needed; openssl rand -base64 33 gives one`)
  if (!/^[\x21-\x7e]+$/.test(token)) throw refuse('token has characters that a header cannot carry: it is printable ASCII without spaces')
  if (PUBLISHED.has(token)) throw refuse('token is one of the documentation, which everybody knows; openssl rand -base64 33 gives one')
}

function isName(value: unknown, most: number): value is string {
  return typeof value === 'string' && value.trim() !== '' && value.length <= most && !CONTROL.test(value)
}

function isNames(value: unknown, fits: (one: string) => boolean): value is string[] {
  return Array.isArray(value) && value.length <= MAX_NAMES && value.every((one) => typeof one === 'string' && fits(one))
}

function instantOf(value: unknown): number | undefined {
  const time = typeof value === 'string' && INSTANT.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}
