/** `svc audit verify`. */
import { isAbsolute, resolve } from 'node:path'
import type { Command, CommandCall, OpenState } from 'svcdb'
import type { AuditConfig } from './config.ts'
import { sealBy } from './entry.ts'
import { type Head, readBeginnings, readHead, stateOfLog } from './head.ts'
import { keyFrom } from './key.ts'
import { type Verdict, verify } from './verify.ts'

const OK = 0
const BROKEN = 1
const UNREADABLE = 2
const HASH = /^[0-9a-f]{64}$/

export const auditCommand: Command = {
  name: 'audit',
  usage: 'verify [FILE...]',
  summary: 'Finds the first broken link of an audit log; files in order, or that of the config. Exits 0 whole, 1 broken, 2 not readable',
  flags: {
    'hmac-key-env': { description: 'environment variable with the key; without files, that of the config' },
    after: { description: 'hash that the first entry follows, where the file is not the first' },
    'expect-last': { description: 'hash that was the last one: it must still be there' },
  },
  usageCode: UNREADABLE,
  async run(call) {
    try {
      return await runVerify(call)
    } catch (error) {
      const { problems = [(error as Error).message] } = error as { problems?: readonly string[] }
      for (const line of problems) call.err(`svc: ${line}\n`)
      return UNREADABLE
    }
  },
}

async function runVerify({ args: [verb, ...given], flags, env, config, out, err }: CommandCall): Promise<number> {
  if (verb !== 'verify') throw new Error(`cannot run "${['audit', ...(verb === undefined ? [] : [verb])].join(' ')}": write svc audit verify FILE`)
  const { after, 'expect-last': expected } = flags
  for (const [name, value] of Object.entries({ after, 'expect-last': expected }))
    if (value !== undefined && !HASH.test(value)) throw new Error(`cannot use --${name} "${value.slice(0, 80)}": write the 64 hexadecimal digits of a hash`)
  let files = given
  let variable = flags['hmac-key-env']
  let known: Known = { head: undefined, beginnings: new Set() }
  if (given.length === 0) {
    const { section, dataDir, openState, sharedState } = await config()
    if (section === undefined) throw new Error('cannot find the audit log: the config does not select plugin "audit"; name a file')
    const { path, hmac_key_env } = section as AuditConfig
    files = [auditLogPath(path, dataDir)]
    variable ??= hmac_key_env
    // Before the file: what a server that runs adds meanwhile is behind the head.
    known = await knownOf(openState, sharedState ? files[0] : undefined)
  }
  const { head } = known
  const verdict = await verify(files, sealBy(keyFrom(variable, env)), {
    beginning: after === undefined ? { afterAny: known.beginnings } : { after },
    expected: [expected, head?.hash].filter((hash) => hash !== undefined),
  }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`cannot read audit log: ${error.message}`, { cause: error })
  })
  if (verdict.broken !== undefined) {
    const { file, line, id, problem } = verdict.broken
    const where = `"${file}" line ${line}${id === undefined ? '' : `, id ${id}`}`
    err(`broken at ${where}: ${problem}\n${summary(verdict, ' before it')}`)
    return BROKEN
  }
  const since = (hash: string | undefined) => (hash === undefined ? undefined : verdict.sinceExpected.get(hash))
  if (head !== undefined && since(head.hash) === undefined) {
    const have = `the state store has entry ${head.id} with hash ${head.hash} as the last`
    err(`broken: ${have}: the end was cut off, or the file is another one\n${summary(verdict, '')}`)
    return BROKEN
  }
  if (expected !== undefined && since(expected) === undefined) {
    err(`broken: no entry has the expected hash ${expected}: the end of the audit log was cut off, or it is another one\n${summary(verdict, '')}`)
    return BROKEN
  }
  out(`whole: ${summary(verdict, '')}`)
  if (head !== undefined) out(`the last entry that the state store has, ${head.id}, is there, with ${since(head.hash)} entries after it\n`)
  else if (given.length === 0) out('the state store has no last entry to compare with: that the end was not cut off is not known\n')
  if (expected !== undefined) out(`the expected hash is there, with ${since(expected)} entries after it\n`)
  return OK
}

/** What the state store has of the log. */
interface Known {
  head: Head | undefined
  beginnings: ReadonlySet<string>
}

/** @param path of the log, where several nodes share the store. */
async function knownOf(openState: () => Promise<OpenState | undefined>, path: string | undefined): Promise<Known> {
  const open = await openState()
  try {
    if (open === undefined) return { head: undefined, beginnings: new Set() }
    const state = path === undefined ? open.state : stateOfLog(open.state, path)
    return { head: await readHead(state), beginnings: await readBeginnings(state) }
  } finally {
    await open?.close()
  }
}

function summary({ entries, firstId, lastId, lastHash }: Verdict, where: string): string {
  return entries === 0 ? `0 entries${where}\n` : `${entries} entries${where}, ids ${firstId} to ${lastId}, last hash ${lastHash}\n`
}

/** Where the file of the audit log is, absolute. */
export function auditLogPath(path: string, dataDir: string | undefined): string {
  return isAbsolute(path) ? path : resolve(dataDir ?? '.', path)
}
