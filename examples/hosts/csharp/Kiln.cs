// Compiled models: include/kiln-c/model.h through P/Invoke.
using System;
using System.Runtime.InteropServices;

namespace Kiln
{
    public class KilnException : Exception
    {
        public readonly int Status;
        public KilnException(int status, string message) : base(message) { Status = status; }
    }

    // A loaded model. The outputs of a run are copied, so that nothing is left to free.
    public sealed class Model : IDisposable
    {
        [StructLayout(LayoutKind.Sequential)]
        struct DLTensor
        {
            public IntPtr Data;
            public int DeviceType, DeviceId;
            public int Rank;
            public byte Code, Bits;
            public ushort Lanes;
            public IntPtr Shape, Strides;
            public ulong ByteOffset;
        }

        [StructLayout(LayoutKind.Sequential)]
        struct Managed
        {
            public uint Major, Minor;
            public IntPtr Context, Deleter;
            public ulong Flags;
            public DLTensor Tensor;
        }

        const int Cpu = 1, Float = 2;

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)] delegate uint AbiVersion();
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)] delegate int Create(IntPtr options, out IntPtr model);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        delegate int RunOnce(IntPtr model, IntPtr[] inputs, UIntPtr numInputs, IntPtr[] outputs, UIntPtr numOutputs, IntPtr stream);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)] delegate void Destroy(IntPtr model);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)] delegate IntPtr LastError();
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)] delegate void Delete(IntPtr tensor);

        [DllImport("libdl.so.2")] static extern IntPtr dlopen(string path, int flags);
        [DllImport("libdl.so.2")] static extern IntPtr dlsym(IntPtr library, string name);
        [DllImport("libdl.so.2")] static extern int dlclose(IntPtr library);
        [DllImport("libdl.so.2")] static extern IntPtr dlerror();

        IntPtr library, handle;
        readonly RunOnce run;
        readonly Destroy destroy;
        readonly LastError lastError;

        public Model(string path)
        {
            library = dlopen(path, 2);
            if (library == IntPtr.Zero)
                throw new KilnException(1, Marshal.PtrToStringAnsi(dlerror()));
            try
            {
                uint version = Find<AbiVersion>("kiln_abi_version")();
                if (version < 1 || version > 2)
                    throw new KilnException(3, path + " has version " + version + " of the ABI");
                run = Find<RunOnce>("kiln_model_run");
                destroy = Find<Destroy>("kiln_model_destroy");
                lastError = Find<LastError>("kiln_last_error");
                Check(Find<Create>("kiln_model_create")(IntPtr.Zero, out handle));
            }
            catch
            {
                Dispose();
                throw;
            }
        }

        // Runs a model of one input and one output, of float32; `shape` becomes the output's.
        public float[] Run(float[] data, ref long[] shape)
        {
            long count = 1;
            foreach (long size in shape)
                count *= size;
            if (count != data.Length)
                throw new ArgumentException("data and shape differ");
            GCHandle pinnedData = GCHandle.Alloc(data, GCHandleType.Pinned), pinnedShape = GCHandle.Alloc(shape, GCHandleType.Pinned);
            IntPtr input = Marshal.AllocHGlobal(Marshal.SizeOf(typeof(DLTensor)));
            try
            {
                DLTensor tensor = new DLTensor
                {
                    Data = pinnedData.AddrOfPinnedObject(), DeviceType = Cpu, Rank = shape.Length,
                    Code = Float, Bits = 32, Lanes = 1, Shape = pinnedShape.AddrOfPinnedObject()
                };
                Marshal.StructureToPtr(tensor, input, false);
                IntPtr[] outputs = { IntPtr.Zero };
                Check(run(handle, new[] { input }, (UIntPtr)1, outputs, (UIntPtr)1, IntPtr.Zero));
                return Take(outputs[0], out shape);
            }
            finally
            {
                Marshal.FreeHGlobal(input);
                pinnedShape.Free();
                pinnedData.Free();
            }
        }

        public void Dispose()
        {
            if (handle != IntPtr.Zero)
                destroy(handle);
            if (library != IntPtr.Zero)
                dlclose(library);
            handle = library = IntPtr.Zero;
        }

        static float[] Take(IntPtr output, out long[] shape)
        {
            Managed managed = (Managed)Marshal.PtrToStructure(output, typeof(Managed));
            try
            {
                DLTensor tensor = managed.Tensor;
                if (tensor.Code != Float || tensor.Bits != 32)
                    throw new KilnException(1, "the output is not of float32");
                shape = new long[tensor.Rank];
                if (tensor.Rank > 0)
                    Marshal.Copy(tensor.Shape, shape, 0, tensor.Rank);
                long count = 1;
                foreach (long size in shape)
                    count *= size;
                float[] values = new float[count];
                Marshal.Copy(new IntPtr(tensor.Data.ToInt64() + (long)tensor.ByteOffset), values, 0, values.Length);
                return values;
            }
            finally
            {
                if (managed.Deleter != IntPtr.Zero)
                    ((Delete)Marshal.GetDelegateForFunctionPointer(managed.Deleter, typeof(Delete)))(output);
            }
        }

        void Check(int status)
        {
            if (status != 0)
                throw new KilnException(status, Marshal.PtrToStringAnsi(lastError()));
        }

        T Find<T>(string name)
        {
            IntPtr function = dlsym(library, name);
            if (function == IntPtr.Zero)
                throw new KilnException(1, "this is not a model: it has no " + name);
            return (T)(object)Marshal.GetDelegateForFunctionPointer(function, typeof(T));
        }
    }
}
