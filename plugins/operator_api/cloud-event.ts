/**
 * An event as it comes in: the API's own body, or a CloudEvent 1.0, in one body (structured) or with its attributes in headers (binary). Pure. The type of a
 * CloudEvent is the kind, its subject a correlation key, and its source is folded into the id: the source of what is delivered is always the caller.
 */
import type { CorrelationKey, Json } from 'svcdb/agents'
import type { JsonBounds } from 'svcdb/lib/json'
import type { SchemaReader } from 'svcdb/lib/schema'
import { parseJson, shaped } from './body.ts'
import { Refusal } from './refusal.ts'

export interface Delivered {
  id: string
  kind: string
  correlation: CorrelationKey[]
  payload: Json
}

interface Raw {
  headers: readonly [string, string][]
  body: Buffer
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i
const STRUCTURED = /^application\/cloudevents\+json\s*(?:;|$)/i
const EXTENSION = /^[a-z0-9]{1,20}$/
/** The fields of the mapping, and those that say nothing about what happened. */
const ATTRIBUTES = new Set(['specversion', 'id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'dataschema', 'data'])
const CONTROL = /\p{Cc}/u
/** Of the API's own body. */
const MEMBERS = Object.fromEntries(['id', 'kind', 'payload', 'correlation', 'source'].map((name) => [name, {}]))
/** As in a deduplication key: no source or id has one. */
const SEPARATOR = '\u001f'
const CONTROLLED = 'an event has no control characters in its id, kind and correlation'

/** @param native reads the API's own body. @throws Refusal 400. */
export function parseEvent({ headers, body }: Raw, bounds: JsonBounds, native: SchemaReader): Delivered {
  const type = headers.find(([name]) => name === 'content-type')?.[1] ?? ''
  if (STRUCTURED.test(type)) return checked(fromAttributes(structured(parseJson(body, bounds))))
  if (headers.some(([name]) => name.startsWith('ce-'))) return checked(fromAttributes(binary(headers, type, body, bounds)))
  if (!JSON_TYPE.test(type))
    throw new Refusal(400, `cannot read an event of Content-Type "${type.slice(0, 128)}": send application/json, application/cloudevents+json, or ce- headers`)
  const { id, kind, payload, correlation = [] } = shaped<Delivered>(native, parseJson(body, bounds), { name: 'body', status: 400, members: MEMBERS })
  // With a separator it would be that of a CloudEvent, which would then be a duplicate.
  if (id.includes(SEPARATOR)) throw new Refusal(400, CONTROLLED)
  return checked({ id, kind, payload, correlation })
}

function checked(event: Delivered): Delivered {
  const { id, kind, correlation } = event
  for (const [name, text] of Object.entries({ id, kind })) {
    if (text.trim() === '') throw new Refusal(400, `the ${name} of an event is not empty`)
    if (text.length > 1024) throw new Refusal(400, `the ${name} of an event has at most 1024 characters`)
  }
  for (const text of [kind, id.replaceAll(SEPARATOR, ''), ...correlation.flatMap(({ namespace, value }) => [namespace, value])])
    if (CONTROL.test(text) || !text.isWellFormed()) throw new Refusal(400, CONTROLLED)
  return event
}

type Attributes = Record<string, unknown>

function structured(value: unknown): Attributes {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Refusal(400, 'a CloudEvent is a JSON object')
  const given = value as Attributes
  if (Object.hasOwn(given, 'data_base64')) throw new Refusal(400, 'cannot read data_base64: send data as JSON')
  for (const name of Object.keys(given)) checkName(name)
  return given
}

function binary(headers: readonly [string, string][], type: string, body: Buffer, bounds: JsonBounds): Attributes {
  const given: Attributes = {}
  for (const [header, text] of headers) {
    if (!header.startsWith('ce-')) continue
    const name = header.slice('ce-'.length)
    if (Object.hasOwn(given, name)) throw new Refusal(400, `the header ${header.slice(0, 32)} is there more than once; send it once`)
    checkName(name)
    if (name === 'data' || name === 'datacontenttype') throw new Refusal(400, `the header ${header} is none of a CloudEvent: data is the body`)
    given[name] = decoded(text, header)
  }
  if (body.length > 0 && !JSON_TYPE.test(type)) throw new Refusal(400, `cannot read the data of an event of Content-Type "${type.slice(0, 128)}": send JSON`)
  return { ...given, data: body.length === 0 ? null : parseJson(body, bounds) }
}

function checkName(name: string): void {
  if (!ATTRIBUTES.has(name) && !EXTENSION.test(name))
    throw new Refusal(400, `${JSON.stringify(name.slice(0, 32))} is no name of an extension: it is lower case letters and digits, 20 at most`)
}

/** Percent-encoded UTF-8, and header values are bytes. */
function decoded(text: string, header: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Refusal(400, `cannot decode the header ${header.slice(0, 32)}: a "%" in it is not followed by two digits of UTF-8`)
  }
}

function fromAttributes(given: Attributes): Delivered {
  const { specversion, subject, data = null } = given
  if (specversion !== '1.0') throw new Refusal(400, 'an event of CloudEvents has the specversion "1.0"')
  const [id, source, kind] = ['id', 'source', 'type'].map((name) => {
    const text = given[name]
    if (typeof text !== 'string' || text.trim() === '')
      throw new Refusal(400, `an event of CloudEvents has the attribute ${name}, which is a text and not empty`)
    if (CONTROL.test(text)) throw new Refusal(400, `the attribute ${name} of an event has no control characters`)
    return text
  })
  if (subject !== undefined && subject !== null && (typeof subject !== 'string' || subject === ''))
    throw new Refusal(400, 'the subject of an event of CloudEvents is a text and not empty')
  const correlation = typeof subject === 'string' ? [{ namespace: 'subject', value: subject }] : []
  return { id: `${source}${SEPARATOR}${id}`, kind, correlation, payload: data as Json }
}
