/** Where the config says that the policies are. */
import { SvcError } from '../../kernel/errors.ts'
import type { CedarConfig } from './config.ts'
import type { PolicySource } from './policy-files.ts'

/** Undefined where none are asked for: no policies then means no policy engine. @throws SvcError CONFIG_ERROR */
export function sourceOf({ engine, policy_dir: folder, policy_file: file, max_policy_bytes: maxBytes }: CedarConfig): PolicySource | undefined {
  if (folder !== '' && file !== '')
    throw new SvcError('CONFIG_ERROR', `cannot use authorization.policy_file "${file}": authorization.policy_dir is set too; set one of them`)
  if (folder !== '') return { path: folder, kind: 'folder', maxBytes }
  if (file !== '') return { path: file, kind: 'file', maxBytes }
  if (engine === '') return undefined
  throw new SvcError('CONFIG_ERROR', `cannot use authorization.engine "${engine}": there are no policies; set authorization.policy_dir or policy_file`)
}
