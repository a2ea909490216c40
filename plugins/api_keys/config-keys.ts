/** The keys of the config, checked. */
import type { ConfigKey } from './config.ts'
import { type ApiKey, makeKey, nameProblem, namespaceProblems } from './key.ts'
import { MAX_TOKEN_LENGTH } from './key-text.ts'
import { hasUsualCost, type Phc, parsePhc } from './phc.ts'

/** Shorter ones can be guessed. */
const SHORT = 16

export interface GivenKey {
  key: ApiKey
  /** Of a key that is not given as a hash. */
  text: string | undefined
}

/** @throws Error with all that is wrong, none of which shows a key. */
export function readConfigKeys(given: readonly ConfigKey[], env: Record<string, string | undefined>): { keys: GivenKey[]; warnings: string[] } {
  const problems: string[] = []
  const warnings: string[] = []
  const keys: GivenKey[] = []
  const names = new Set<string>()
  for (const entry of given) {
    const name = entry.name.trim()
    const say = (why: string) => void problems.push(`cannot use key ${JSON.stringify(name.slice(0, 128))} of auth.api_keys: ${why}`)
    const problem = nameProblem(name)
    if (problem !== undefined) problems.push(problem)
    if (names.has(name)) say('another key has the name; rename one of them')
    names.add(name)
    for (const text of namespaceProblems(entry)) say(text)
    const secret = textOf(entry.key.reveal(), env)
    if ('problem' in secret) {
      say(secret.problem)
      continue
    }
    const { phc, text } = secret
    if (entry.key_prefix !== undefined && phc === undefined) say('key_prefix goes with a PHC string; leave it out')
    if (text !== undefined && text.length < SHORT)
      warnings.push(`key ${JSON.stringify(name)} of auth.api_keys has only ${text.length} characters and can be guessed: use one that svc generate-key makes`)
    keys.push({ key: keyOf(entry, name, phc), text })
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return { keys, warnings }
}

type Given = { phc: Phc; text?: undefined } | { text: string; phc?: undefined } | { problem: string }

function textOf(given: string, env: Record<string, string | undefined>): Given {
  const variable = /^\$([A-Za-z_]\w*)$/.exec(given)?.[1]
  // Neither name nor value is shown: what stands there may be a key that happens to begin with "$".
  const text = variable === undefined ? given : env[variable]
  if (text === undefined) return { problem: 'it names an environment variable, "$" and a name, that is not set; set it, or give the key itself' }
  if (text === '') return { problem: 'it is empty; see that its environment variable is set' }
  if (text.startsWith('$argon2')) {
    const phc = parsePhc(text)
    return typeof phc === 'string' ? { problem: `${phc}; svc generate-key prints one` } : { phc }
  }
  if (!/^[\x21-\x7e]+$/.test(text)) return { problem: 'it has blanks, or characters that no header can carry; svc generate-key makes one' }
  if (text.length > MAX_TOKEN_LENGTH) return { problem: `it has ${text.length} characters; ${MAX_TOKEN_LENGTH} are the limit` }
  return { text }
}

function keyOf(entry: ConfigKey, name: string, phc: Phc | undefined): ApiKey {
  const { namespaces, admin, roles, tenant, expires_at, key_prefix } = entry
  // A hash of another cost is not looked up: the time of an answer would tell whether there is such a prefix.
  const lookup = phc !== undefined && hasUsualCost(phc) ? key_prefix : undefined
  const optional = {
    ...(phc === undefined ? {} : { phc }),
    ...(lookup === undefined ? {} : { lookup }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(expires_at === undefined ? {} : { expiresAt: expires_at }),
  }
  return makeKey({ id: name, name, source: 'config', namespaces, admin, roles, enabled: true, ...optional })
}
