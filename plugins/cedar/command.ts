/** `svc policy check DIR`: whether a server would take the policies. */
import { stat } from 'node:fs/promises'
import type { Command, CommandCall } from 'svcdb'
import { checkInThread } from './check-thread.ts'
import { type CedarSections, MAX_POLICY_BYTES } from './config.ts'
import { type PolicySource, readPolicies } from './policy-files.ts'
import { sourceOf } from './source.ts'

export const policyCommand: Command = {
  name: 'policy',
  usage: 'check [DIR]',
  summary: 'Checks the policies of a folder or file, by default those of the config, without a server',
  run: async (call) => {
    const [verb, path, ...more] = call.args
    if (verb !== 'check' || more.length > 0) throw new Error('cannot run policy: write svc policy check DIR')
    return check(await sourceFor(path, call), call)
  },
}

async function sourceFor(path: string | undefined, call: CommandCall): Promise<PolicySource> {
  if (path !== undefined) {
    const found = await stat(path).catch((error: Error) => {
      throw new Error(`cannot check policies "${path}": ${error.message}; name a folder or a file`)
    })
    return { path, kind: found.isDirectory() ? 'folder' : 'file', maxBytes: MAX_POLICY_BYTES }
  }
  const { section } = await call.config()
  if (section === undefined) throw new Error('cannot check policies: the config does not select plugin "cedar"; write svc policy check DIR')
  return sourceOf(section as CedarSections)
}

async function check(source: PolicySource, { out, err }: CommandCall): Promise<number> {
  const { files } = await readPolicies(source)
  const { set, problems, warnings } = await checkInThread(files)
  for (const warning of warnings) err(`warning: ${warning}\n`)
  for (const problem of problems) err(`${problem}\n`)
  if (problems.length > 0) {
    err(`svc: cannot use the policies of "${source.path}": ${problems.length === 1 ? 'there is a problem' : `there are ${problems.length} problems`}\n`)
    return 1
  }
  if (set.policies.size === 0) err('warning: there are no policies, so that everything would be refused\n')
  out(`${counted(set.policies.size, 'policy', 'policies')} in ${counted(files.length, 'file', 'files')} can be used\n`)
  return 0
}

function counted(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`
}
