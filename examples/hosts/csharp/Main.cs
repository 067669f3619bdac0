// Runs a model on an image of ones and prints its scores.
using System;
using System.Globalization;
using System.Linq;

static class Program
{
    static int Main(string[] arguments)
    {
        if (arguments.Length != 1)
        {
            Console.Error.WriteLine("usage: host MODEL.so");
            return 2;
        }
        try
        {
            using (var model = new Kiln.Model(arguments[0]))
            {
                float[] image = Enumerable.Repeat(1f, 3 * 8 * 8).ToArray();
                long[] shape = { 1, 3, 8, 8 };
                float[] scores = model.Run(image, ref shape);
                for (int i = 0; i < shape[1]; ++i)
                    Console.WriteLine(scores[i].ToString("F6", CultureInfo.InvariantCulture));
            }
            return 0;
        }
        catch (Kiln.KilnException error)
        {
            Console.Error.WriteLine(error.Message + " (status " + error.Status + ")");
            return 1;
        }
    }
}
