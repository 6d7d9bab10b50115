import java.util.HashMap;
import org.apache.iceberg.aws.s3.S3FileIO;

/** Writes a file into a warehouse as Spark does, with the properties of a catalog. */
public class Write {
    public static void main(String[] given) throws Exception {
        var properties = new HashMap<String, String>();
        for (var each : given) {
            var parts = each.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        try (var files = new S3FileIO()) {
            files.initialize(properties);
            var place = properties.get("warehouse") + "/file";
            try (var file = files.newOutputFile(place).createOrOverwrite()) {
                file.write(1);
            }
        }
    }
}
