/** `svc plane validate` and `svc plane digest`: of a manifest in a file, without a node. */
import { readFile } from 'node:fs/promises'
import type { CommandCall } from 'svcdb'
import { type AgentManifest, manifestDigest, manifestProblems } from 'svcdb/agents'

const OK = 0
const NEGATIVE = 1

/** @returns the exit status. @throws Error for a file that cannot be read. */
export async function manifestVerb({ out, err }: CommandCall, verb: 'validate' | 'digest', file: string): Promise<number> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    throw new Error(`cannot read manifest "${file}": ${(error as Error).message}`)
  }
  let manifest: AgentManifest
  try {
    manifest = JSON.parse(text) as AgentManifest
  } catch (error) {
    err(`svc: cannot use manifest "${file}": it is not JSON: ${(error as Error).message}\n`)
    return NEGATIVE
  }
  const problems = manifestProblems(manifest)
  for (const problem of problems) err(`${file}: ${problem}\n`)
  if (problems.length > 0) return NEGATIVE
  out(
    verb === 'digest'
      ? `${manifestDigest(manifest)}\n`
      : `${file}: agent "${manifest.metadata.name}", version ${manifest.metadata.version}, digest ${manifestDigest(manifest)}\n`,
  )
  return OK
}
