declare module '*.ipynb' {
  const value: { metadata: { kernelspec?: { name: string } } };
  export default value;
}
