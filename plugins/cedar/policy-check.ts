/** Whether files of policies can be used: what is wrong with each, by line, or the policies one by one. */
import type { DetailedError } from '@cedar-policy/cedar-wasm/nodejs'
import type { Cedar } from './cedar-library.ts'
import { SCHEMA } from './model.ts'
import type { PolicyFile } from './policy-files.ts'
import { MAX_LEVELS, shapeOf } from './policy-shape.ts'
import { type Scope, scopeOf } from './scope.ts'

export interface PolicySet {
  /** By `<file>#<number within the file>`. */
  policies: Map<string, { text: string; scope: Scope; reason?: string }>
  /** Attributes of the context that the policies may look at. */
  contextUse: string[]
}

export interface Checked {
  set: PolicySet
  /** Each names file, line and column. With any the set cannot be used. */
  problems: string[]
  warnings: string[]
}

/** @param schema what the policies may speak of. Overflows of the engine's stack are caught, but leave it unusable: call this with an engine of its own. */
export function checkPolicies(cedar: Cedar, files: readonly PolicyFile[], schema: string = SCHEMA): Checked {
  const checked: Checked = { set: { policies: new Map(), contextUse: [] }, problems: [], warnings: [] }
  const contextUse = new Set<string>()
  for (const file of files) {
    try {
      checkFile(cedar, file, schema, checked, contextUse)
    } catch (error) {
      checked.problems.push(`${file.name}: cannot be checked: ${(error as Error).message}; it is likely nested too deep, write several policies instead`)
      break // nothing else could be checked with this engine
    }
  }
  checked.set.contextUse = [...contextUse].sort()
  return checked
}

function checkFile(cedar: Cedar, file: PolicyFile, schema: string, { set, problems, warnings }: Checked, contextUse: Set<string>): void {
  const parts = cedar.policySetTextToParts(file.text)
  if (parts.type === 'failure') return void problems.push(...texts(parts.errors, file))
  if (parts.policy_templates.length > 0)
    return void problems.push(`${file.name}: there is a template, with ?principal or ?resource, which nothing links; name the principal and the resource`)
  let usable = true
  for (const [i, text] of inOrder(parts.policies).entries()) {
    const label = `${file.name}#${i + 1}`
    const answer = cedar.policyToJson(text)
    if (answer.type === 'failure') return void problems.push(...texts(answer.errors, { ...file, text }))
    const shape = shapeOf(answer.json)
    if (shape.tooDeep) {
      usable = false
      problems.push(`${label}: it is more than ${MAX_LEVELS} levels deep; use sets in place of long chains of && and ||, or several policies`)
    }
    for (const name of shape.contextUse) contextUse.add(name)
    const reason = answer.json.annotations?.reason
    set.policies.set(label, { text, scope: scopeOf(answer.json), ...(typeof reason === 'string' && reason.trim() !== '' ? { reason } : {}) })
  }
  if (!usable) return
  const answer = cedar.validate({ schema, policies: { staticPolicies: file.text }, validationSettings: { mode: 'strict' } })
  if (answer.type === 'failure') return void problems.push(...texts(answer.errors, file))
  const errors = (list: readonly { error: DetailedError }[]) => list.map(({ error }) => error)
  // What is wrong with a policy makes it look impossible too.
  if (answer.validationErrors.length > 0) return void problems.push(...texts(errors(answer.validationErrors), file))
  warnings.push(...texts([...errors(answer.validationWarnings), ...answer.otherWarnings], file))
}

/** The parts come ordered by their ids as text: policy0, policy1, policy10, policy11, policy2 ... */
function inOrder(parts: readonly string[]): string[] {
  const ids = parts.map((_, i) => i).sort((a, b) => (String(a) < String(b) ? -1 : 1))
  const ordered: string[] = []
  for (const [at, id] of ids.entries()) ordered[id] = parts[at]
  return ordered
}

/** One line each, in the file's order; what is said of one place for several actions is said once. */
function texts(errors: readonly DetailedError[], file: PolicyFile): string[] {
  const found = new Map<string, { at: number; text: string }>()
  const all = errors.flatMap((one) => [one, ...(one.related ?? [])])
  const positions = positionsOf(
    file.text,
    all.flatMap((error) => error.sourceLocations?.[0]?.start ?? []),
  )
  for (const error of all) {
    const [place] = error.sourceLocations ?? []
    const message = error.message.replace(/^for policy `[^`]*`[,:]? /, '').replace(/^failed to parse policies from string: /, '')
    const hint = [place?.label, error.help].filter((part) => typeof part === 'string' && part !== '')
    const where = place === undefined ? file.name : `${file.name}:${positions.get(place.start)}`
    const text = `${where}: ${[message, ...hint].join('; ')}`
    const key = `${where} ${message.replace(/ for (?:Svc::)?Action::"[^"]+"$/, '')}`
    if (!found.has(key)) found.set(key, { at: place?.start ?? 0, text: text.replaceAll(/\s*\n\s*/g, ' ') })
  }
  return [...found.values()].sort((a, b) => a.at - b.at).map(({ text }) => text)
}

/** Line and column, from 1, of each offset in bytes. A file may have a fault in each line: it is gone through once. */
function positionsOf(text: string, offsets: readonly number[]): Map<number, string> {
  const bytes = Buffer.from(text)
  const positions = new Map<number, string>()
  let [at, line, column] = [0, 1, 1]
  for (const offset of [...new Set(offsets)].sort((a, b) => a - b)) {
    const lines = bytes.toString('utf8', at, offset).split('\n')
    const last = (lines.at(-1) as string).length
    column = lines.length > 1 ? last + 1 : column + last
    line += lines.length - 1
    at = Math.max(at, offset)
    positions.set(offset, `${line}:${column}`)
  }
  return positions
}
