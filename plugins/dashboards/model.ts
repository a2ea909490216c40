/** What a Grafana dashboard model is, as far as it takes to serve one. */
import { SvcError } from 'svcdb/lib/errors'
import { checkJsonBounds } from 'svcdb/lib/json'
import { withoutBom } from 'svcdb/lib/text'

export interface Model {
  /** Of its file, without the folder. */
  name: string
  uid: string | undefined
  title: string
  /** JSON, as it was in the file. */
  text: string
}

/** Of objects in one another, and of members of all of them: a dashboard has tens of levels and some thousands of members. */
const BOUNDS = { depth: 64, members: 200_000 }
const EXPORT_HINT = 'put the JSON model of a dashboard there, as Grafana shows and exports it'

/** @param name of the file. @throws Error in a few words, a cause and a hint. */
export function parseModel(name: string, bytes: Buffer): Model {
  const text = textOf(bytes)
  const model = parsed(text, bytes)
  if (typeof model !== 'object' || model === null || Array.isArray(model)) throw new Error(`it is no JSON object; ${EXPORT_HINT}`)
  const { title, uid, panels, rows, elements, dashboard } = model as Record<string, unknown>
  if (typeof title !== 'string' || title.trim() === '')
    throw new Error(
      typeof dashboard === 'object' ? "it is an answer of Grafana's API; keep what is under its member dashboard" : `it has no title; ${EXPORT_HINT}`,
    )
  if (!Array.isArray(panels) && !Array.isArray(rows) && (typeof elements !== 'object' || elements === null)) throw new Error(`it has no panels; ${EXPORT_HINT}`)
  if (uid !== undefined && uid !== null && typeof uid !== 'string') throw new Error('its uid is no text; give it one, or none')
  return { name, uid: typeof uid === 'string' && uid !== '' ? uid : undefined, title, text: text.trim() }
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(withoutBom(bytes))
  } catch {
    throw new Error('it is not UTF-8; save it as such')
  }
}

function parsed(text: string, bytes: Buffer): unknown {
  try {
    checkJsonBounds(bytes, BOUNDS)
  } catch (error) {
    if (error instanceof SvcError) throw new Error(`it has more than ${BOUNDS.depth} levels or ${BOUNDS.members} members; make it smaller`)
    throw error
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`it is no JSON (${(error as Error).message.slice(0, 120)}); ${EXPORT_HINT}`)
  }
}

interface Merged {
  /** Those of the folder in the place of shipped ones that have their file name or uid, then those of the folder that are new; each part by name. */
  models: Model[]
  /** Of the folder, with a uid that another file of it has. */
  doubles: { name: string; other: string }[]
}

/** Both in order of their names. */
export function merge(shipped: readonly Model[], own: readonly Model[]): Merged {
  const doubles: Merged['doubles'] = []
  const byUid = new Map<string, string>()
  const taken: Model[] = []
  for (const model of own) {
    const other = model.uid === undefined ? undefined : byUid.get(model.uid)
    if (other !== undefined) doubles.push({ name: model.name, other })
    else {
      if (model.uid !== undefined) byUid.set(model.uid, model.name)
      taken.push(model)
    }
  }
  const left = new Set(taken)
  const models: Model[] = []
  for (const model of shipped) {
    const instead = [...left].filter(({ name, uid }) => name === model.name || (uid !== undefined && uid === model.uid))
    for (const one of instead) left.delete(one)
    models.push(...(instead.length === 0 ? [model] : instead))
  }
  return { models: [...models, ...left], doubles }
}

/** The JSON array of them. */
export function arrayOf(models: readonly Model[]): Buffer {
  return Buffer.from(`[${models.map(({ text }) => text).join(',\n')}]`)
}
