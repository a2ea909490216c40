/**
 * What an engine thread says of itself in shared memory, for when it takes no messages. A thread that ends while a call of DuckDB is under way aborts the process: the
 * library hands the result over to an environment that runs no JavaScript any more (node-addon-api, Error::ThrowAsJavaScriptException). So nobody ends it from outside
 * while it has connections in use, or when it is about to end by itself.
 */
export const ThreadLife = { CONNECTIONS: 0, ENDING: 1, SLOTS: 2 } as const

export function threadLife(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4 * ThreadLife.SLOTS))
}

/** Whether it may be ended from outside. */
export function isAtRest(life: Int32Array): boolean {
  return Atomics.load(life, ThreadLife.ENDING) === 0 && Atomics.load(life, ThreadLife.CONNECTIONS) === 0
}
