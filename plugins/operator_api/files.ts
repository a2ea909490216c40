/** The files that the section names, as a start and `svc check` read them. */
import { access, readFile } from 'node:fs/promises'
import { SvcError } from 'svcdb/lib/errors'
import type { OperatorApiConfig } from './config.ts'
import { Tokens } from './tokens.ts'

/** @throws SvcError CONFIG_ERROR naming the file, and never a token. */
export async function tokensOf(file: string): Promise<Tokens> {
  try {
    return Tokens.read(await readFile(file, 'utf8'))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new SvcError('CONFIG_ERROR', `cannot use operator_api.tokens_file "${file}": ${code === undefined ? message : `it cannot be read (${code})`}`)
  }
}

/** What the policies say is for the plugin that loads them, which takes longer: here they are only looked for. @throws SvcError CONFIG_ERROR naming the file. */
export async function checkFiles({ tokens_file, policy }: Pick<OperatorApiConfig, 'tokens_file' | 'policy'>): Promise<void> {
  await tokensOf(tokens_file)
  try {
    await access(policy)
  } catch (error) {
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot use operator_api.policy "${policy}": it cannot be read (${(error as NodeJS.ErrnoException).code}); name a folder or a file`,
    )
  }
}
