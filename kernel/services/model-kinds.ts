/**
 * Kinds of models of time series. The plugin `analytics` provides the service MODEL_KINDS; a plugin that requires it brings kinds of its own, which can then be
 * trained, watched and forecast with like those that are built in.
 */
export const MODEL_KINDS = 'model_kinds'

/** The service MODEL_KINDS. */
export interface ModelKinds {
  /**
   * Call it in setup.
   * @param name as requests name it, lower case letters, digits and "_". @param module its default export is a `ModelKind`; it is loaded in threads beside the node.
   * @throws Error for a name that is bad or taken.
   */
  register(name: string, module: URL): void
}

/**
 * One kind of model, pure: it sees nothing but values. A call that does not end is ended with its thread.
 * @param State what JSON can hold: it is kept in the state store.
 */
export interface ModelKind<State = unknown> {
  /**
   * @param values one a step, without gaps, 2 at least. @param parameters as the request gave them.
   * @returns the fitted model, and what it would have forecast one step before each value, NaN where it could not. @throws Error whose text says what was wanted.
   */
  fit(values: Float64Array, parameters: Readonly<Record<string, unknown>>): { state: State; fitted: Float64Array }
  /** @returns for each step ahead the forecast and the standard deviation of its error. */
  predict(state: State, horizon: number): { values: Float64Array; std: Float64Array }
  /**
   * The model after values that came after those before, coefficients as they are; NaN = missing. Without it a model forecasts from the end of its training.
   * @returns it, and its forecast of each value one step before.
   */
  follow?(state: State, values: Float64Array): { state: State; fitted: Float64Array }
}
