/** Where the config says that the policies are. */
import { SvcError } from 'svcdb/lib/errors'
import type { CedarSections } from './config.ts'
import type { PolicySource } from './policy-files.ts'

/** @throws SvcError CONFIG_ERROR where it does not: a plugin that was selected and restricts nobody would be an open server that looks closed. */
export function sourceOf({ authorization, server }: CedarSections): PolicySource {
  const { policy_file: file, max_policy_bytes: maxBytes } = authorization
  const folder = authorization.policy_dir || server.authz_policy_dir
  if (server.authz_policy_dir !== '' && folder !== server.authz_policy_dir)
    throw new SvcError('CONFIG_ERROR', `cannot use server.authz_policy_dir "${server.authz_policy_dir}": authorization.policy_dir is another; set one of them`)
  if (folder !== '' && file !== '')
    throw new SvcError('CONFIG_ERROR', `cannot use authorization.policy_file "${file}": the folder "${folder}" is set too; set one of them`)
  if (folder !== '') return { path: folder, kind: 'folder', maxBytes }
  if (file !== '') return { path: file, kind: 'file', maxBytes }
  throw new SvcError(
    'CONFIG_ERROR',
    'cannot authorize callers: there are no policies; set authorization.policy_dir or authorization.policy_file, take "cedar" out of plugins, or set authorization.engine = "none" where only other plugins ask it',
  )
}
