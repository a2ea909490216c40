import type { StateReader, StateStore } from '../storage/state.ts'

/** A word of the command line that a plugin brings: `svc generate-key --name ci`. */
export interface Command {
  name: string
  /** First arguments that it answers to, where another plugin has the word: `svc plane openapi`. Absent = all that nobody names. */
  verbs?: readonly string[]
  /** Built-in plugins that have the word too: asked whether or not they are selected. */
  sharedWith?: readonly string[]
  /** What follows the word, such as `verify FILE`. */
  usage?: string
  /** In place of `usage`, of a command with several verbs: what follows the word, and what that does. */
  forms?: readonly { usage: string; summary: string }[]
  summary: string
  /** Flags beside --config, without dashes; they take a value unless they say `boolean`. */
  flags?: Record<string, { description: string; boolean?: true }>
  /** Exit code of a line with flags that it does not take, or without the value of one: such as 2, where 1 is an answer. Default 1. */
  usageCode?: number
  /** @returns the exit code. @throws Error in one line, which is printed; the code is then 1. */
  run(call: CommandCall): Promise<number>
}

/** One use of a command. `args` are what follows the word, `flags` by their names without dashes. */
export interface CommandCall {
  flags: Record<string, string | undefined>
  args: readonly string[]
  env: Record<string, string | undefined>
  out(text: string): void
  err(text: string): void
  /** What --config or SVC_CONFIG gives the plugin, checked. @throws ConfigError */
  config(): Promise<CommandConfig>
}

/** What a command learns of a config file, without a start: it may be that of a server that runs. */
export interface CommandConfig {
  /** The plugin's own section; undefined where the config does not select it. */
  section: unknown
  dataDir: string | undefined
  multiTenancy: boolean
  /** Whether nodes on other machines may have the same state store. */
  sharedState: boolean
  /**
   * What the state store has of the plugin, for reading, while a server runs or not; undefined where there is nothing to be read. Close it.
   * @throws Error in one line.
   */
  openState(): Promise<OpenState | undefined>
  /**
   * Likewise, to read and to write: no server may run on it, and none starts until it is closed.
   * @throws Error in one line, also where a server runs.
   */
  ownState(): Promise<OwnState | undefined>
}

/** What `svc check` gives a plugin. */
export interface CheckCall extends CommandConfig {
  env: Record<string, string | undefined>
  /** Ids of those selected. */
  plugins: readonly string[]
  /** Ids of those that authenticate. */
  authenticators: readonly string[]
}

/** The state of one plugin, open for reading until it is closed. */
export interface OpenState {
  state: StateReader
  close(): Promise<void>
}

/** The state of one plugin, open for reading and writing until it is closed. */
export interface OwnState extends OpenState {
  state: StateStore
}
